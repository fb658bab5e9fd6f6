package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/postrider/postrider/relay"
)

// metric is one of our metrics. read returns its samples for one database, the
// labels' values without the database's name.
type metric struct {
	name   string
	help   string
	kind   prometheus.ValueType // 0: a histogram
	labels []string             // besides database
	// peak says that samples which an alias puts together are not added up: the
	// largest counts.
	peak bool
	read func(relay.DatabaseStatus) []sample
}

// sample is one value of a metric.
type sample struct {
	labels    []string
	value     float64
	histogram *relay.HistogramSnapshot
}

const (
	gauge     = prometheus.GaugeValue
	counter   = prometheus.CounterValue
	histogram = prometheus.ValueType(0)
)

// metrics is the one list. The gauges of a table come from the relay that
// reports on it, one per outbox, so that relays do not count the same rows.
var metrics = []metric{
	byTopic("outbox_pending_events", "Events that are due and not delivered, held ones included.",
		func(t relay.TopicReport) float64 { return float64(t.PendingEvents) }),
	peak(byTopic("outbox_oldest_pending_seconds", "Age of the oldest due event since it was due.",
		func(t relay.TopicReport) float64 { return t.OldestPendingSeconds })),
	byTopic("outbox_held_events", "Pending events whose key waits for a retry or an operator.",
		func(t relay.TopicReport) float64 { return float64(t.HeldEvents) }),
	byTopic("outbox_scheduled_events", "Events that are not due yet by their writer's wish.",
		func(t relay.TopicReport) float64 { return float64(t.ScheduledEvents) }),
	byTopic("outbox_dead_events", "Dead letters.",
		func(t relay.TopicReport) float64 { return float64(t.DeadEvents) }),
	{name: "outbox_blocked_keys", help: "Keys that wait for an operator.", kind: gauge, read: func(d relay.DatabaseStatus) []sample {
		if d.Report == nil {
			return nil
		}
		return one(float64(d.Report.BlockedKeys))
	}},
	{name: "outbox_database_up", help: "1 while the relay can use the database.", kind: gauge, read: func(d relay.DatabaseStatus) []sample {
		return one(truth(d.Error == "" && (d.Reached || d.Server != "")))
	}},
	number("outbox_relays", "Relays that have a lease on the outbox.", func(d relay.DatabaseStatus) float64 { return float64(len(d.Relays)) }),
	number("outbox_lanes", "Lanes that this relay owns, of 256.", func(d relay.DatabaseStatus) float64 { return float64(d.Lanes) }),
	number("outbox_in_memory_events", "Events in this relay's memory.", func(d relay.DatabaseStatus) float64 { return float64(d.InMemory) }),
	number("outbox_memory_bytes", "Payload bytes in this relay's memory.", func(d relay.DatabaseStatus) float64 { return float64(d.MemoryBytes) }),
	number("outbox_topics_without_route", "Topics with events that no route takes.", func(d relay.DatabaseStatus) float64 { return float64(len(d.NoRoute)) }),
	number("outbox_last_settle_timestamp_seconds", "When a settle last committed, in seconds since 1970; 0 before the first.",
		func(d relay.DatabaseStatus) float64 { return unix(d.LastSettle) }),
	{
		name: "outbox_destination_down_seconds", help: "For how long a destination has been paused or probed; absent while it is open.",
		kind: gauge, labels: []string{"broker", "destination"}, peak: true,
		read: func(d relay.DatabaseStatus) []sample {
			var samples []sample
			for _, x := range d.Destinations {
				samples = append(samples, sample{labels: []string{x.Broker, x.Name}, value: time.Since(x.Since).Seconds()})
			}
			return samples
		},
	},
	total("outbox_delivered_total", "Events that the broker accepted and the database settled.", func(c relay.Counts) int64 { return c.Delivered }),
	total("outbox_failed_total", "Sends of an event that did not succeed, of whatever cause.", func(c relay.Counts) int64 { return c.Failed }),
	total("outbox_dead_total", "Events that became dead letters.", func(c relay.Counts) int64 { return c.Dead }),
	total("outbox_held_total", "Failures after which a key, or an event without one, had to wait.", func(c relay.Counts) int64 { return c.Held }),
	total("outbox_missed_total", "Rows that were not as expected when they were settled: another relay or an operator was faster.", func(c relay.Counts) int64 { return c.Missed }),
	total("outbox_fetches_total", "Fetches.", func(c relay.Counts) int64 { return c.Fetches }),
	total("outbox_settles_total", "Settling statements.", func(c relay.Counts) int64 { return c.Settles }),
	total("outbox_wakeups_total", "Wake-ups by the database's bell.", func(c relay.Counts) int64 { return c.Wakeups }),
	total("outbox_kept_total", "Rows that housekeeping removed.", func(c relay.Counts) int64 { return c.Kept }),
	total("outbox_lanes_moved_total", "Lanes gained.", func(c relay.Counts) int64 { return c.LanesMoved }),
	total("outbox_lease_losses_total", "Leases that another relay took over.", func(c relay.Counts) int64 { return c.LeaseLosses }),
	total("outbox_history_lost_total", "Settles whose delivered events could not be kept.", func(c relay.Counts) int64 { return c.HistoryLost }),
	times("outbox_publish_seconds", "Duration of a call to a broker.", func(d relay.DatabaseStatus) *relay.HistogramSnapshot { return &d.PublishSeconds }),
	times("outbox_fetch_seconds", "Duration of a fetch.", func(d relay.DatabaseStatus) *relay.HistogramSnapshot { return &d.FetchSeconds }),
	times("outbox_settle_seconds", "Duration of a settling statement.", func(d relay.DatabaseStatus) *relay.HistogramSnapshot { return &d.SettleSeconds }),
	times("outbox_commit_to_ack_seconds", "From an event's place in the outbox to the broker's acknowledgement.", func(d relay.DatabaseStatus) *relay.HistogramSnapshot { return &d.CommitToAckSeconds }),
}

// MetricNames returns the name of each metric with its labels, for checking
// aliases.
func MetricNames() map[string][]string {
	names := make(map[string][]string, len(metrics))
	for _, m := range metrics {
		names[m.name] = m.allLabels()
	}
	return names
}

func (m metric) allLabels() []string { return append([]string{"database"}, m.labels...) }

func byTopic(name, help string, value func(relay.TopicReport) float64) metric {
	return metric{name: name, help: help, kind: gauge, labels: []string{"topic"}, read: func(d relay.DatabaseStatus) []sample {
		if d.Report == nil {
			return nil
		}
		var samples []sample
		for _, t := range d.Report.Topics {
			samples = append(samples, sample{labels: []string{t.Topic}, value: value(t)})
		}
		return samples
	}}
}

func peak(m metric) metric {
	m.peak = true
	return m
}

func number(name, help string, value func(relay.DatabaseStatus) float64) metric {
	return metric{name: name, help: help, kind: gauge, read: func(d relay.DatabaseStatus) []sample { return one(value(d)) }}
}

func total(name, help string, value func(relay.Counts) int64) metric {
	return metric{name: name, help: help, kind: counter, read: func(d relay.DatabaseStatus) []sample {
		return one(float64(value(d.Counts)))
	}}
}

func times(name, help string, value func(relay.DatabaseStatus) *relay.HistogramSnapshot) metric {
	return metric{name: name, help: help, kind: histogram, read: func(d relay.DatabaseStatus) []sample {
		return []sample{{histogram: value(d)}}
	}}
}

func one(value float64) []sample { return []sample{{value: value}} }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
