package brokertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider/relay"
)

// Bench measures Publish beside the protocol's bare client, in turns and in one
// process, so that both meet the same machine. It reports events/s, raw/s and
// their ratio, for calls of 4,000 events of 4,000, 100 and 1 keys with payloads
// of 300 bytes.
func Bench(b *testing.B, h Harness) {
	for _, keys := range []int{4000, 100, 1} {
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { bench(b, h, keys) })
	}
}

func bench(b *testing.B, h Harness, keys int) {
	const n = 4000
	d := h.open(b)
	var raw, ours time.Duration
	round := 0
	load := func(tag string) []relay.Event {
		events := make([]relay.Event, n)
		payload := make([]byte, 300)
		for i := range events {
			e := d.event(fmt.Sprintf("%s-%d-%d", tag, round, i%keys), i)
			e.Payload = payload
			events[i] = e
		}
		return events
	}
	for b.Loop() {
		round++
		if h.Raw != nil {
			events := load("raw")
			start := time.Now()
			h.Raw(b, d, events)
			raw += time.Since(start)
		}
		events := load("publish")
		start := time.Now()
		errs := d.Broker.Publish(b.Context(), events)
		ours += time.Since(start)
		wantAll(b, errs)
	}
	total := float64(round * n)
	b.ReportMetric(total/ours.Seconds(), "events/s")
	if h.Raw != nil {
		b.ReportMetric(total/raw.Seconds(), "raw/s")
		b.ReportMetric(raw.Seconds()/ours.Seconds(), "ratio")
	}
}
