package main

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/postrider/postrider/cmd/postrider/internal/bench"
	"github.com/postrider/postrider/cmd/postrider/internal/config"
)

// leftByBench counts what a bench left in a SQLite file.
func (d database) leftByBench(t *testing.T) (tables int) {
	t.Helper()
	db, err := openSQLite(d.url, false)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	row := db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name LIKE 'postrider_bench%'")
	if err := row.Scan(&tables); err != nil {
		t.Fatal(err)
	}
	return tables
}

func TestBench_PrintsTheFieldsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		fields []string
	}{
		"drain":   {[]string{"--events", "500", "--keys", "10"}, []string{"raw_per_second", "relay_per_second", "ratio"}},
		"latency": {[]string{"--rate", "50", "--duration", "300ms"}, []string{"p50_ms", "p99_ms", "max_ms", "rate"}},
		"write": {
			[]string{"--writers", "2", "--duration", "300ms"},
			[]string{"commits_per_second_without_relay", "commits_per_second_with_relay", "ratio"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFileDB(t)
			broker := "file:" + filepath.Join(t.TempDir(), "events.jsonl")
			text := must(t, d.env(), append([]string{"bench", name, "--json", "--broker", broker}, c.args...)...)
			var got map[string]float64
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			for _, field := range c.fields {
				if v, ok := got[field]; !ok || v <= 0 {
					t.Errorf("field %s: %v in %s", field, v, text)
				}
			}
			if n := d.leftByBench(t); n > 0 {
				t.Errorf("%d tables left", n)
			}
		})
	}
}

func TestBench_LeavesNothingWhereTheBrokerIsDown(t *testing.T) {
	t.Parallel()
	for _, broker := range []string{"nats://127.0.0.1:1", "file:/nowhere/at/all.jsonl"} {
		d := newFileDB(t)
		if r := program(t, d.env(), "bench", "drain", "--events", "10", "--broker", broker); r.code != exitFailed {
			t.Errorf("exit %d: %s", r.code, r.shown())
		}
		if n := d.leftByBench(t); n > 0 {
			t.Errorf("broker %s: %d tables left", broker, n)
		}
	}
}

// The outboxes of a schema share an inbox, which belongs to whoever was first. A
// bench must not be: it would take everybody's inbox along when it ends.
func TestBench_LeavesTheInboxAlone(t *testing.T) {
	t.Parallel()
	d := newFileDB(t)
	c := &command{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, env: d.env(), secrets: new(config.Scrubber)}
	c.flags.broker = "stdout:"
	err := c.withBench(t.Context(), func(context.Context, *bench.Env) error {
		must(t, d.env(), "migrate", "up") // the outbox is made while the bench runs
		d.exec(t, "INSERT INTO inbox (consumer, identity) VALUES ('billing', '1')")
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	d.exec(t, "INSERT INTO inbox (consumer, identity) VALUES ('billing', '2')")
	must(t, d.env(), "status")
}
