package postgres

import (
	"testing"

	"github.com/postrider/postrider/store/storetest"
)

func BenchmarkStore(b *testing.B) {
	for _, v := range []struct {
		name   string
		change func(*Config)
	}{
		{"retention=none", func(c *Config) { c.Retention = NoRetention }},
		{"retention=24h", nil},
	} {
		b.Run(v.name, func(b *testing.B) {
			var s *setup
			storetest.Bench(b, func(b *testing.B) storetest.Harness {
				s = newSetup(b, option{change: v.change})
				return s.harness(b)
			}, storetest.BenchConfig{Fill: func(b *testing.B, rows, keys, payload int) {
				s.Exec(b, `INSERT INTO {{outbox}} (topic, key, payload)
					SELECT 'bench', 'key-' || i % $2, convert_to(repeat('x', $3), 'UTF8') FROM generate_series(1, $1::int) i`, rows, keys, payload)
				s.Exec(b, `VACUUM ANALYZE {{outbox}}`)
				s.Exec(b, `CHECKPOINT`)
			}})
		})
	}
}
