"""Producer, consumers and admin, as applications see RocketMQ."""
