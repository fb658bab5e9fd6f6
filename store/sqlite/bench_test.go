package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// BenchmarkDrain fetches and settles 50,000 rows of 300 bytes in batches of
// 2,000, one after the other, with 10,000 ids to skip where it says so.
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct {
		name      string
		retention time.Duration
		held      int
	}{{"history", 24 * time.Hour, 0}, {"none", NoRetention, 0}, {"held100k", 24 * time.Hour, 100_000}} {
		b.Run(c.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				s, db := newStore(b, func(cfg *Config) { cfg.Retention = c.retention })
				fill := func(topic string, n int) {
					mustExec(b, db, `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < ?)
						INSERT INTO outbox (topic, key, payload) SELECT ?, 'k' || (i % 10000), randomblob(300) FROM c`, n, topic)
				}
				if c.held > 0 {
					fill("orders", c.held)
					mustExec(b, db, `UPDATE outbox SET held = 'blocked', key = 'b' || id`)
				}
				fill("orders", 50_000)
				b.StartTimer()
				start := time.Now()
				n := 0
				for n < 50_000 {
					f := fetch(b, s, relay.FetchQuery{Rows: 2000, Bytes: 16 << 20})
					settle(b, s, relay.Settlement{Delivered: refs(f.Rows)})
					n += len(f.Rows)
				}
				b.ReportMetric(float64(n)/time.Since(start).Seconds(), "rows/s")
			}
		})
	}
}

// BenchmarkFetch reads 2,000 rows behind so many in flight.
func BenchmarkFetch(b *testing.B) {
	s, db := newStore(b)
	mustExec(b, db, `WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i < 50000)
		INSERT INTO outbox (topic, key, payload) SELECT 'orders', 'k' || (i % 10000), randomblob(300) FROM c`)
	for _, skip := range []int{0, 10_000} {
		b.Run(fmt.Sprint("skip", skip), func(b *testing.B) {
			q := relay.FetchQuery{Rows: 2000}
			for i := range skip {
				q.Skip = append(q.Skip, relay.IntID(int64(i+1)))
			}
			for range b.N {
				fetch(b, s, q)
			}
		})
	}
}

// BenchmarkBell is one look of the bell; BenchmarkIdle an empty fetch.
func BenchmarkBell(b *testing.B) {
	s, _ := newStore(b)
	look, err := s.lookout(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer look.close()
	for b.Loop() {
		if _, err := look.sequence(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIdle(b *testing.B) {
	s, _ := newStore(b)
	for range b.N {
		fetch(b, s, relay.FetchQuery{})
	}
}
