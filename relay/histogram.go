package relay

import (
	"sync/atomic"
	"time"
)

// Histogram counts durations in fixed buckets. The zero value is ready; it is
// safe for concurrent use. It is no more than a metrics library needs to show
// one, so that this package needs none.
type Histogram struct {
	buckets [len(bounds) + 1]atomic.Uint64
	sum     atomic.Int64
}

var bounds = [...]time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
	time.Minute, 5 * time.Minute, time.Hour,
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) { h.observe(d, 1) }

func (h *Histogram) observe(d time.Duration, times uint64) {
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(times)
	h.sum.Add(int64(d) * int64(times))
}

// HistogramSnapshot is a histogram at one moment.
type HistogramSnapshot struct {
	Count uint64
	Sum   time.Duration
	// Cumulative has the number of observations up to each bound.
	Cumulative map[time.Duration]uint64
}

// Snapshot reads the histogram.
func (h *Histogram) Snapshot() HistogramSnapshot {
	s := HistogramSnapshot{Sum: time.Duration(h.sum.Load()), Cumulative: make(map[time.Duration]uint64, len(bounds))}
	for i := range h.buckets {
		s.Count += h.buckets[i].Load()
		if i < len(bounds) {
			s.Cumulative[bounds[i]] = s.Count
		}
	}
	return s
}
