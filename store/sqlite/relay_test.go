package sqlite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/relay/memory"
)

// Two whole relays on one file: one delivers, the other stands by and takes over
// when the first stops. Nothing is lost, repeated or out of order.
func TestRelay_TwoOnOneFile(t *testing.T) {
	t.Parallel()
	name, db := newFile(t)
	broker := memory.NewBroker(memory.ServerConfig{})
	w, err := outbox.NewWriter(outbox.SQLite, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	start := func() (stop func()) {
		r, err := relay.New(relay.Config{
			Databases: []relay.Database{{Name: "db", Store: openStore(t, name)}},
			Brokers:   map[string]relay.Broker{"default": broker},
			Routes:    []relay.Route{{Topic: "*"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	const events, keys = 400, 10
	write := func(from int) {
		for i := from; i < from+events; i++ {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Write(t.Context(), tx, outbox.Event{Topic: "orders", Key: fmt.Sprint(i % keys), Payload: fmt.Append(nil, i)}); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	delivered := func(n int) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); len(broker.Log()) < n; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d of %d delivered", len(broker.Log()), n)
			}
		}
	}
	stopFirst := start()
	write(0)
	delivered(events)
	stopSecond := start()
	write(events)
	stopFirst()
	delivered(2 * events)
	stopSecond()

	last := map[string]int{}
	for _, a := range broker.Log() {
		var n int
		if _, err := fmt.Sscan(string(a.Payload), &n); err != nil {
			t.Fatal(err)
		}
		if before, ok := last[a.Key]; ok && n <= before {
			t.Errorf("key %s: %d after %d", a.Key, n, before)
		}
		last[a.Key] = n
	}
	if n := broker.Repeated(); n > 0 || len(broker.Log()) != 2*events {
		t.Errorf("%d deliveries, %d repeated", len(broker.Log()), n)
	}
	if n := count(t, db, `SELECT count(*) FROM outbox`); n != 0 {
		t.Errorf("%d left", n)
	}
	if n := count(t, db, `SELECT (SELECT count(*) FROM outbox_relay) + (SELECT count(owner) FROM outbox_lane)`); n != 0 {
		t.Errorf("%d leases left", n)
	}
}
