// A test of an application that must survive the death of a master.
package shop_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"

	"rmqlab.example/rmqlab"
)

// shop sends orders until they are on two disks, and ships each order once.
type shop struct {
	t        testing.TB
	producer rocketmq.Producer
	mutex    sync.Mutex
	shipped  map[string]bool
}

func openShop(t testing.TB, namesrvAddr string) *shop {
	rlog.SetLogLevel("error")
	made, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrvAddr})),
		producer.WithGroupName("shop"),
		producer.WithInstanceName("shop"),
	)
	must(t, err)
	must(t, made.Start())
	t.Cleanup(func() { _ = made.Shutdown() })
	return &shop{t: t, producer: made, shipped: map[string]bool{}}
}

// order sends an order again until master and slave have it, and returns the number of attempts.
func (s *shop) order(ctx context.Context, id string) int {
	for attempt := 1; ; attempt++ {
		result, err := s.producer.SendSync(ctx, primitive.NewMessage("orders", []byte(id)))
		if err == nil && result.Status == primitive.SendOK {
			return attempt
		}
		select {
		case <-ctx.Done():
			s.t.Errorf("%s is not sent: %v, %v", id, result, err)
			return attempt
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (s *shop) startShipping(namesrvAddr string) {
	made, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{namesrvAddr})),
		consumer.WithGroupName("shipping"),
		consumer.WithInstance("shipping"),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	must(s.t, err)
	must(s.t, made.Subscribe("orders", consumer.MessageSelector{}, s.ship))
	must(s.t, made.Start())
	s.t.Cleanup(func() { _ = made.Shutdown() })
}

func (s *shop) ship(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, message := range messages {
		s.shipped[string(message.Body)] = true
	}
	return consumer.ConsumeSuccess, nil
}

func (s *shop) awaitShipped(ctx context.Context, count int) {
	s.t.Helper()
	for {
		s.mutex.Lock()
		shipped := len(s.shipped)
		s.mutex.Unlock()
		if shipped == count {
			return
		}
		select {
		case <-ctx.Done():
			s.t.Fatalf("%d of %d orders are shipped", shipped, count)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestOrdersWaitForTheMasterAndAllAreShipped(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cluster := rmqlab.Start(t, rmqlab.Options{Role: "SYNC_MASTER"})
	cluster.WaitUntil("slave-in-sync broker-a")
	shop := openShop(t, cluster.NamesrvAddr)
	shop.order(ctx, "order-0") // creates the topic
	cluster.AwaitRoute("orders")
	shop.startShipping(cluster.NamesrvAddr) // a Go consumer cannot start without a master: it asks only masters for offsets
	for number := 1; number < 50; number++ {
		shop.order(ctx, fmt.Sprintf("order-%d", number))
	}
	cluster.Kill("broker-a:master")
	cluster.WaitUntil("route-gone broker-a:master")

	waiting := make(chan int)
	go func() { waiting <- shop.order(ctx, "order-50") }()
	cluster.StartNode("broker-a:master")
	if attempts := <-waiting; attempts < 2 {
		t.Errorf("%d attempts: the first one met no master", attempts)
	}
	for number := 51; number < 60; number++ {
		shop.order(ctx, fmt.Sprintf("order-%d", number))
	}
	shop.awaitShipped(ctx, 60)
}

func TestWhatIsImpossibleNamesWhatIsPossible(t *testing.T) {
	cluster := rmqlab.Start(t, rmqlab.Options{})
	kill := func(target string) error {
		return cluster.Ask("POST", "/v1/actions/kill", map[string]any{"target": target}, nil)
	}
	if err := kill("broker-b"); err == nil || !strings.Contains(err.Error(), "did you mean broker-a?") {
		t.Error(err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
