package admin

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/relay"
)

// Alias is a further name of one of our metrics, for dashboards and alerts that
// a team already has.
type Alias struct {
	// Name is our metric.
	Name string
	// Labels are their labels, each with our label that fills it. Samples that
	// differ only in labels left out are added up, ages by the largest.
	Labels map[string]string
}

// collector turns a status into metrics at each scrape.
type collector struct {
	relay  Relay
	max    int
	served []served
}

// served is a metric under one name.
type served struct {
	metric
	desc *prometheus.Desc
	// from are the indexes of the labels in the metric's own.
	from []int
}

func newCollector(r Relay, cfg Config) *collector {
	c := &collector{relay: r, max: cfg.MaxLabelValues}
	for _, m := range metrics {
		c.add(m, m.name, m.allLabels(), m.allLabels())
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Aliases)) {
		alias := cfg.Aliases[name]
		theirs := slices.Sorted(maps.Keys(alias.Labels))
		ours := make([]string, len(theirs))
		for i, label := range theirs {
			ours[i] = alias.Labels[label]
		}
		if i := slices.IndexFunc(metrics, func(m metric) bool { return m.name == alias.Name }); i >= 0 {
			c.add(metrics[i], name, theirs, ours)
		}
	}
	return c
}

func (c *collector) add(m metric, name string, labels, ours []string) {
	s := served{metric: m, desc: prometheus.NewDesc(name, m.help, labels, nil)}
	for _, label := range ours {
		s.from = append(s.from, slices.Index(m.allLabels(), label))
	}
	c.served = append(c.served, s)
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, s := range c.served {
		out <- s.desc
	}
}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), statusTimeout)
	defer cancel()
	status := c.relay.Status(ctx)
	for i := range status.Databases {
		status.Databases[i].Report = bounded(status.Databases[i].Report, c.max)
	}
	for _, s := range c.served {
		for _, x := range s.samples(status) {
			out <- s.metricOf(x)
		}
	}
}

// samples reads a metric for all databases and puts together what its labels
// do not tell apart.
func (s served) samples(status relay.Status) []sample {
	var all []sample
	seen := map[string]int{}
	for _, d := range status.Databases {
		for _, x := range s.read(d) {
			ours := append([]string{d.Name}, x.labels...)
			x.labels = make([]string, len(s.from))
			for i, from := range s.from {
				x.labels[i] = clean(ours[from])
			}
			at := strings.Join(x.labels, "\x00")
			if i, known := seen[at]; known {
				all[i] = s.join(all[i], x)
				continue
			}
			seen[at] = len(all)
			all = append(all, x)
		}
	}
	return all
}

// clean makes a label's value UTF-8: one that is not would fail the whole
// scrape.
func clean(value string) string { return strings.ToValidUTF8(value, "\uFFFD") }

func (s served) join(a, b sample) sample {
	switch {
	case a.histogram != nil:
		a.histogram = addHistograms(a.histogram, b.histogram)
	case s.peak:
		a.value = max(a.value, b.value)
	default:
		a.value += b.value
	}
	return a
}

func addHistograms(a, b *relay.HistogramSnapshot) *relay.HistogramSnapshot {
	sum := relay.HistogramSnapshot{Count: a.Count + b.Count, Sum: a.Sum + b.Sum, Cumulative: map[time.Duration]uint64{}}
	for bound, n := range a.Cumulative {
		sum.Cumulative[bound] = n + b.Cumulative[bound]
	}
	return &sum
}

func (s served) metricOf(x sample) prometheus.Metric {
	if x.histogram == nil {
		return prometheus.MustNewConstMetric(s.desc, s.kind, x.value, x.labels...)
	}
	buckets := make(map[float64]uint64, len(x.histogram.Cumulative))
	for bound, n := range x.histogram.Cumulative {
		buckets[bound.Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(s.desc, x.histogram.Count, x.histogram.Sum.Seconds(), buckets, x.labels...)
}
