package outboxsql

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/testenv"
	"github.com/postrider/postrider/outbox"
)

// BenchmarkWrite measures Write by the number of events of one call, beside
// plain statements of the same rows in the same run: one INSERT per event.
func BenchmarkWrite(b *testing.B) {
	url := testenv.Postgres(b).Database(b)
	var text bytes.Buffer
	if err := outbox.Print(&text, outbox.FormatSQL, outbox.Postgres, outbox.Names{}, outbox.MigrationOptions{}); err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = conn.Close(b.Context()) }()
	if _, err := conn.Exec(b.Context(), text.String()); err != nil {
		b.Fatal(err)
	}
	w, err := outbox.NewWriter(outbox.Postgres, outbox.Config{})
	if err != nil {
		b.Fatal(err)
	}
	payload := bytes.Repeat([]byte("x"), 300)
	for _, n := range []int{1, 10, 100, 5_000} {
		events := make([]outbox.Event, n)
		for i := range events {
			events[i] = outbox.Event{Topic: "orders", Key: fmt.Sprint(i), Type: "order.placed", Payload: payload}
		}
		perEvent := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/event") }
		run := func(b *testing.B, do func(tx pgx.Tx) error) {
			b.Helper()
			for b.Loop() {
				tx, err := conn.Begin(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if err := do(tx); err != nil {
					b.Fatal(err)
				}
				if err := tx.Commit(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			perEvent(b)
		}
		b.Run(fmt.Sprintf("Write/%d", n), func(b *testing.B) {
			run(b, func(tx pgx.Tx) error { return w.Write(b.Context(), outbox.Pgx(tx), events...) })
		})
		b.Run(fmt.Sprintf("plain/%d", n), func(b *testing.B) {
			run(b, func(tx pgx.Tx) error {
				for _, e := range events {
					if _, err := tx.Exec(b.Context(), `INSERT INTO public.outbox (topic, key, type, payload) VALUES ($1, $2, $3, $4)`, e.Topic, e.Key, e.Type, e.Payload); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}
