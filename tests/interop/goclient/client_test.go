// Package interop has what the Go client does against a cluster of ours, by feature.
package interop

import (
	"context"
	"fmt"
	"sort"
	"strconv"
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

const (
	patience = 90 * time.Second
	count    = 40
	// What may still arrive after the last expected message: a second delivery of one.
	linger = time.Second
)

// lab is one cluster for all features.
type lab struct{ *rmqlab.Cluster }

func TestTheGoClient(t *testing.T) {
	rlog.SetLogLevel("error")
	cluster := lab{rmqlab.Start(t, rmqlab.Options{Role: "SYNC_MASTER", Settings: []string{
		"enablePropertyFilter=true", "traceTopicEnable=true",
		"transactionCheckInterval=1000", "transactionTimeOut=1000",
	}})}
	cluster.WaitUntil("slave-in-sync broker-a")
	for _, feature := range []struct {
		name string
		run  func(lab, *testing.T)
	}{
		{"sync", lab.sync}, {"async", lab.async}, {"oneway", lab.oneway}, {"batch", lab.batch}, {"delay", lab.delay},
		{"transaction", lab.transaction}, {"orderly", lab.orderly}, {"sql92", lab.sql92}, {"trace", lab.trace},
		{"kill", lab.kill}, // the last one: it leaves the master restarted
	} {
		t.Run(feature.name, func(t *testing.T) { feature.run(cluster, t) })
	}
}

func (l lab) sync(t *testing.T) {
	made := l.producer(t, "sync")
	for number := 0; number < count; number++ {
		result, err := made.SendSync(context.Background(), message("GoSync", number))
		must(t, err)
		if result.Status != primitive.SendOK || result.MessageQueue.BrokerName != "broker-a" {
			t.Fatal(result)
		}
	}
	expect(t, bodies(l.consume(t, "GoSync", count)), names(0, count))
}

func (l lab) async(t *testing.T) {
	made := l.producer(t, "async")
	var waiting sync.WaitGroup
	for number := 0; number < count; number++ {
		waiting.Add(1)
		must(t, made.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			defer waiting.Done()
			if err != nil || result.Status != primitive.SendOK {
				t.Error(result, err)
			}
		}, message("GoAsync", number)))
	}
	waiting.Wait()
	expect(t, bodies(l.consume(t, "GoAsync", count)), names(0, count))
}

func (l lab) oneway(t *testing.T) {
	made := l.producer(t, "oneway")
	_, err := made.SendSync(context.Background(), message("GoOneway", 0)) // creates the topic
	must(t, err)
	for number := 1; number < count; number++ {
		must(t, made.SendOneWay(context.Background(), message("GoOneway", number)))
	}
	expect(t, bodies(l.consume(t, "GoOneway", count)), names(0, count))
}

func (l lab) batch(t *testing.T) {
	var batch []*primitive.Message
	for number := 0; number < count; number++ {
		batch = append(batch, message("GoBatch", number))
	}
	result, err := l.producer(t, "batch").SendSync(context.Background(), batch...)
	must(t, err)
	if result.Status != primitive.SendOK {
		t.Fatal(result)
	}
	expect(t, bodies(l.consume(t, "GoBatch", count)), names(0, count))
}

func (l lab) delay(t *testing.T) {
	delayed := message("GoDelay", 0)
	delayed.WithDelayTimeLevel(2) // 5 s
	_, err := l.producer(t, "delay").SendSync(context.Background(), delayed)
	must(t, err)
	got := l.consume(t, "GoDelay", 1)[0]
	if waited := got.StoreTimestamp - got.BornTimestamp; waited < 5000 {
		t.Errorf("delivered after %d ms; expected at least 5000", waited)
	}
}

// decisions leaves number 2 open, and commits it when the broker asks.
type decisions struct{ checked chan string }

func (d decisions) ExecuteLocalTransaction(sent *primitive.Message) primitive.LocalTransactionState {
	return map[string]primitive.LocalTransactionState{
		"m-0": primitive.CommitMessageState, "m-1": primitive.RollbackMessageState, "m-2": primitive.UnknowState,
	}[string(sent.Body)]
}

func (d decisions) CheckLocalTransaction(half *primitive.MessageExt) primitive.LocalTransactionState {
	d.checked <- string(half.Body)
	return primitive.CommitMessageState
}

func (l lab) transaction(t *testing.T) {
	decides := decisions{make(chan string, count)}
	made, err := rocketmq.NewTransactionProducer(decides, l.producerOptions("transaction")...)
	must(t, err)
	must(t, made.Start())
	defer func() { _ = made.Shutdown() }()
	for number := 0; number < 3; number++ {
		_, err := made.SendMessageInTransaction(context.Background(), message("GoTransaction", number))
		must(t, err)
	}
	select {
	case body := <-decides.checked:
		if body != "m-2" {
			t.Errorf("%s is checked; expected m-2", body)
		}
	case <-time.After(patience):
		t.Fatal("no transaction is checked")
	}
	expect(t, bodies(l.consume(t, "GoTransaction", 2)), []string{"m-0", "m-2"})
}

func (l lab) orderly(t *testing.T) {
	made := l.producer(t, "orderly", producer.WithQueueSelector(producer.NewHashQueueSelector()))
	for number := 0; number < count; number++ {
		sent := message("GoOrderly", number)
		sent.WithShardingKey(strconv.Itoa(number % 3))
		_, err := made.SendSync(context.Background(), sent)
		must(t, err)
	}
	got := l.consume(t, "GoOrderly", count, consumer.WithConsumerOrder(true))
	last := map[string]int{}
	for _, message := range got {
		number, err := strconv.Atoi(strings.TrimPrefix(string(message.Body), "m-"))
		must(t, err)
		if key := message.GetShardingKey(); number < last[key] {
			t.Errorf("key %s: %d after %d", key, number, last[key])
		} else {
			last[key] = number
		}
	}
	expect(t, bodies(got), names(0, count))
}

func (l lab) sql92(t *testing.T) {
	made := l.producer(t, "sql92")
	for number := 0; number < count; number++ {
		sent := message("GoSql92", number)
		sent.WithProperty("a", strconv.Itoa(number))
		_, err := made.SendSync(context.Background(), sent)
		must(t, err)
	}
	selector := consumer.MessageSelector{Type: consumer.SQL92, Expression: "a BETWEEN 10 AND 19"}
	expect(t, bodies(l.consumeSelected(t, "GoSql92", 10, selector)), names(10, 20))
}

func (l lab) trace(t *testing.T) {
	resolver := primitive.NewPassthroughResolver([]string{l.NamesrvAddr})
	traced := &primitive.TraceConfig{Access: primitive.Local, Resolver: resolver, GroupName: "go-trace"}
	result, err := l.producer(t, "trace", producer.WithTrace(traced)).SendSync(context.Background(), message("GoTrace", 0))
	must(t, err)
	record := string(l.consume(t, "RMQ_SYS_TRACE_TOPIC", 1)[0].Body)
	if !strings.HasPrefix(record, "Pub\x01") || !strings.Contains(record, result.MsgID) {
		t.Errorf("%q: expected the record of %s", record, result.MsgID)
	}
}

// kill: what was acknowledged before, during and after is consumed; nothing is acknowledged without a master.
func (l lab) kill(t *testing.T) {
	made := l.producer(t, "kill")
	for number := 0; number < count; number++ {
		_, err := made.SendSync(context.Background(), message("GoKill", number))
		must(t, err)
	}
	l.Kill("broker-a:master")
	l.WaitUntil("route-gone broker-a:master")
	if result, err := made.SendSync(context.Background(), message("GoKill", count)); err == nil {
		t.Fatalf("sent without a master: %v", result)
	}
	l.StartNode("broker-a:master")
	l.WaitUntil("slave-in-sync broker-a")
	acknowledged := names(0, count)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for number := count + 1; number < 2*count; number++ {
		for {
			if result, err := made.SendSync(ctx, message("GoKill", number)); err == nil && result.Status == primitive.SendOK {
				break
			}
			must(t, ctx.Err())
		}
		acknowledged = append(acknowledged, fmt.Sprintf("m-%d", number))
	}
	expect(t, bodies(l.consume(t, "GoKill", len(acknowledged))), acknowledged)
}

// ---- helpers ----

func (l lab) producerOptions(name string) []producer.Option {
	return []producer.Option{
		producer.WithNsResolver(primitive.NewPassthroughResolver([]string{l.NamesrvAddr})),
		producer.WithGroupName("go-" + name),
		producer.WithInstanceName("go-" + name),
	}
}

func (l lab) producer(t *testing.T, name string, more ...producer.Option) rocketmq.Producer {
	t.Helper()
	made, err := rocketmq.NewProducer(append(l.producerOptions(name), more...)...)
	must(t, err)
	must(t, made.Start())
	t.Cleanup(func() { _ = made.Shutdown() })
	return made
}

func (l lab) consume(t *testing.T, topic string, count int, more ...consumer.Option) []*primitive.MessageExt {
	t.Helper()
	return l.consumeSelected(t, topic, count, consumer.MessageSelector{}, more...)
}

// consumeSelected returns what a new group gets: `count` messages, and those that arrive shortly after them.
func (l lab) consumeSelected(
	t *testing.T, topic string, count int, selector consumer.MessageSelector, more ...consumer.Option,
) []*primitive.MessageExt {
	t.Helper()
	made, err := rocketmq.NewPushConsumer(append([]consumer.Option{
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{l.NamesrvAddr})),
		consumer.WithGroupName("read-" + topic),
		consumer.WithInstance("read-" + topic),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	}, more...)...)
	must(t, err)
	arrived := make(chan *primitive.MessageExt, 10_000)
	must(t, made.Subscribe(topic, selector,
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				arrived <- message
			}
			return consumer.ConsumeSuccess, nil
		}))
	l.AwaitRoute(topic)
	must(t, made.Start())
	defer func() { _ = made.Shutdown() }()
	var got []*primitive.MessageExt
	for limit := time.After(patience); ; {
		select {
		case message := <-arrived:
			if got = append(got, message); len(got) == count {
				limit = time.After(linger)
			}
		case <-limit:
			if len(got) < count {
				t.Fatalf("%s: %d of %d messages arrived", topic, len(got), count)
			}
			return got
		}
	}
}

func message(topic string, number int) *primitive.Message {
	return primitive.NewMessage(topic, []byte(fmt.Sprintf("m-%d", number)))
}

func names(from, to int) []string {
	var made []string
	for number := from; number < to; number++ {
		made = append(made, fmt.Sprintf("m-%d", number))
	}
	return made
}

func bodies(messages []*primitive.MessageExt) []string {
	var made []string
	for _, message := range messages {
		made = append(made, string(message.Body))
	}
	return made
}

func expect(t *testing.T, got, expected []string) {
	t.Helper()
	sort.Strings(got)
	sort.Strings(expected)
	if strings.Join(got, " ") != strings.Join(expected, " ") {
		t.Errorf("got %v; expected %v", got, expected)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
