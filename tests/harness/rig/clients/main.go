// One member of a consumer group, by Sarama, franz-go or kafka-go, in a process of its own: main '{"library": …}'.
// It takes commands as JSON lines on standard input and says what happens to it as JSON lines on standard output,
// as client.py does.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sync"
	"time"

	"github.com/IBM/sarama"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type task struct {
	Library     string   `json:"library"`
	Bootstrap   string   `json:"bootstrap"`
	Group       string   `json:"group"`
	ClientID    string   `json:"client_id"`
	Topics      []string `json:"topics"`
	Assignor    string   `json:"assignor"`
	SessionMs   int      `json:"session_ms"`
	HeartbeatMs int      `json:"heartbeat_ms"`
	RebalanceMs int      `json:"rebalance_ms"`
	CommitMs    int      `json:"commit_ms"`
	WorkS       float64  `json:"work_s"`
}

type command struct {
	Do      string  `json:"do"`
	Seconds float64 `json:"seconds"`
}

var (
	stalls = make(chan float64, 1)
	worker sync.Mutex
)

func ms(count int) time.Duration { return time.Duration(count) * time.Millisecond }

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }

func say(what string) {
	fmt.Printf("{\"t\": %d, \"what\": %q}\n", time.Now().UnixMilli(), what)
}

// work is done for each record, and for one at a time: who stalls in it holds up all partitions.
func work(each float64) {
	worker.Lock()
	defer worker.Unlock()
	select {
	case length := <-stalls:
		say("stalls")
		time.Sleep(seconds(length))
		say("stalled")
	default:
		time.Sleep(seconds(each))
	}
}

func obey(cancel context.CancelFunc) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var told command
		if err := json.Unmarshal(lines.Bytes(), &told); err != nil {
			log.Fatal(err)
		}
		switch told.Do {
		case "stall":
			stalls <- told.Seconds
		case "close":
			say("close")
			cancel()
		}
	}
	os.Exit(3) // whoever started us is gone
}

func main() {
	var given task
	if err := json.Unmarshal([]byte(os.Args[1]), &given); err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go obey(cancel)
	run := map[string]func(context.Context, task){"sarama": runSarama, "franz-go": runFranz, "kafka-go": runKafkaGo}
	run[given.Library](ctx, given)
	say("closed")
}

type claims struct{ each float64 }

func (claims) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (claims) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (it claims) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case record, open := <-claim.Messages():
			if !open {
				return nil
			}
			work(it.each)
			session.MarkMessage(record, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

func runSarama(ctx context.Context, given task) {
	conf := sarama.NewConfig()
	conf.ClientID = given.ClientID
	conf.Consumer.Offsets.Initial = sarama.OffsetOldest
	conf.Consumer.Offsets.AutoCommit.Interval = ms(given.CommitMs)
	conf.Consumer.Group.Session.Timeout = ms(given.SessionMs)
	conf.Consumer.Group.Heartbeat.Interval = ms(given.HeartbeatMs)
	conf.Consumer.Group.Rebalance.Timeout = ms(given.RebalanceMs)
	if given.Assignor == "roundrobin" {
		conf.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRoundRobin()}
	}
	group, err := sarama.NewConsumerGroup([]string{given.Bootstrap}, given.Group, conf)
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if err := group.Consume(ctx, given.Topics, claims{given.WorkS}); err != nil {
			log.Print(err)
			time.Sleep(ms(200))
		}
	}
	if err := group.Close(); err != nil {
		log.Print(err)
	}
}

func runFranz(ctx context.Context, given task) {
	balancers := map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(given.Bootstrap), kgo.ConsumerGroup(given.Group), kgo.ConsumeTopics(given.Topics...),
		kgo.ClientID(given.ClientID), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancers[given.Assignor]), kgo.SessionTimeout(ms(given.SessionMs)),
		kgo.HeartbeatInterval(ms(given.HeartbeatMs)), kgo.RebalanceTimeout(ms(given.RebalanceMs)),
		kgo.AutoCommitInterval(ms(given.CommitMs)),
	)
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if client.PollFetches(ctx).NumRecords() > 0 {
			work(given.WorkS)
		}
	}
	client.Close()
}

func runKafkaGo(ctx context.Context, given task) {
	reader := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: []string{given.Bootstrap}, GroupID: given.Group, GroupTopics: given.Topics,
		Dialer:      &kafkago.Dialer{ClientID: given.ClientID, Timeout: 10 * time.Second},
		StartOffset: kafkago.FirstOffset, MaxWait: ms(500), CommitInterval: ms(given.CommitMs),
		SessionTimeout: ms(given.SessionMs), HeartbeatInterval: ms(given.HeartbeatMs),
		RebalanceTimeout: ms(given.RebalanceMs),
	})
	for ctx.Err() == nil {
		if _, err := reader.ReadMessage(ctx); err == nil {
			work(given.WorkS)
		} else if ctx.Err() == nil {
			log.Print(err)
		}
	}
	if err := reader.Close(); err != nil {
		log.Print(err)
	}
}
