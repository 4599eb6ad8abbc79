"""Records of many messages at once, encoded and read by columns."""
