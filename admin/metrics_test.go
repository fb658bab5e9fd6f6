package admin_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/admin"
	"github.com/postrider/postrider/relay"
)

func metricsOf(t *testing.T, s relay.Status, cfg admin.Config) string {
	t.Helper()
	code, text := ask(admin.Handler(&fake{status: s}, cfg), "/metrics")
	if code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	return text
}

func has(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

func example() relay.Status {
	var h relay.Histogram
	h.Observe(3 * time.Millisecond)
	database := func(name string, pending int64, oldest float64) relay.DatabaseStatus {
		return relay.DatabaseStatus{
			Name: name, Server: "PostgreSQL 15",
			Report: &relay.Report{
				BlockedKeys: 1,
				Topics:      []relay.TopicReport{{Topic: "orders", PendingEvents: pending, OldestPendingSeconds: oldest, HeldEvents: 2}, {Topic: "bills", PendingEvents: 1}},
			},
			Counts:         relay.Counts{Delivered: 7},
			PublishSeconds: h.Snapshot(),
			Destinations:   []relay.DestinationStatus{{Broker: "main", Name: "orders", Since: time.Now().Add(-time.Hour)}},
		}
	}
	return relay.Status{Databases: []relay.DatabaseStatus{database("a", 5, 3.5), database("b", 10, 1)}}
}

func TestMetrics_NamesOfTheReport(t *testing.T) {
	t.Parallel()
	has(t, metricsOf(t, example(), admin.Config{}),
		`outbox_pending_events{database="a",topic="orders"} 5`,
		`outbox_oldest_pending_seconds{database="a",topic="orders"} 3.5`,
		`outbox_held_events{database="b",topic="orders"} 2`,
		`outbox_dead_events{database="b",topic="bills"} 0`,
		`outbox_blocked_keys{database="a"} 1`,
		`outbox_database_up{database="a"} 1`,
		`outbox_delivered_total{database="b"} 7`,
		`outbox_publish_seconds_count{database="a"} 1`,
		`outbox_publish_seconds_bucket{database="a",le="0.0025"} 0`,
		`outbox_publish_seconds_bucket{database="a",le="0.005"} 1`,
		`outbox_publish_seconds_bucket{database="a",le="+Inf"} 1`,
	)
}

func TestMetrics_WhereAnotherRelayReports(t *testing.T) {
	t.Parallel()
	s := example()
	for i := range s.Databases {
		s.Databases[i].Report = nil
	}
	text := metricsOf(t, s, admin.Config{})
	if strings.Contains(text, "outbox_pending_events{") || !strings.Contains(text, "outbox_delivered_total{") {
		t.Errorf("got\n%s", text)
	}
}

func TestMetrics_AliasesAddUpWhatTheyDoNotTellApart(t *testing.T) {
	t.Parallel()
	has(t, metricsOf(t, example(), admin.Config{Aliases: map[string]admin.Alias{
		"outbox_unpublished_rows":   {Name: "outbox_pending_events"},
		"oldest_unpublished":        {Name: "outbox_oldest_pending_seconds", Labels: map[string]string{"stream": "topic"}},
		"outbox_rows_relayed_total": {Name: "outbox_delivered_total", Labels: map[string]string{"shard": "database"}},
		"publish_time":              {Name: "outbox_publish_seconds"},
	}}),
		"outbox_unpublished_rows 17",
		`oldest_unpublished{stream="orders"} 3.5`,
		`outbox_rows_relayed_total{shard="b"} 7`,
		"# TYPE outbox_rows_relayed_total counter",
		"publish_time_count 2",
	)
}

func TestMetrics_TopicsAreBounded(t *testing.T) {
	t.Parallel()
	var topics []relay.TopicReport
	for i := range 50 {
		topics = append(topics, relay.TopicReport{Topic: fmt.Sprintf("t%d", i), PendingEvents: int64(i), OldestPendingSeconds: float64(i)})
	}
	topics = append(topics, relay.TopicReport{Topic: "other", PendingEvents: 1000}, relay.TopicReport{Topic: "not \xff UTF-8", PendingEvents: 999})
	s := relay.Status{Databases: []relay.DatabaseStatus{{Name: "a", Report: &relay.Report{Topics: topics}}}}
	text := metricsOf(t, s, admin.Config{MaxLabelValues: 5})
	if n := strings.Count(text, "outbox_pending_events{"); n != 4 {
		t.Errorf("%d topics in\n%s", n, text)
	}
	has(t, text, `outbox_pending_events{database="a",topic="t49"} 49`, `outbox_oldest_pending_seconds{database="a",topic="other"} 47`,
		fmt.Sprintf(`outbox_pending_events{database="a",topic="other"} %d`, 1000+47*48/2))
}
