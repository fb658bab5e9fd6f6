package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/relay"
)

// outboxStatus is one database in "status --json". The names of its fields are
// those of the metrics and of the health view.
type outboxStatus struct {
	Name string `json:"name"`
	relay.Report
	Relays []inspect.Relay     `json:"relays"`
	Lanes  []inspect.LaneGroup `json:"lanes"`
	Paused []string            `json:"paused,omitempty"`
	// Error is why nothing, or not all, could be read.
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

func (c *command) status() *cobra.Command {
	var asJSON bool
	var maxAge string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show backlog, age, held and dead events, relays and lanes",
		Long: `Show backlog, age, held and dead events, relays and lanes. It reads the databases,
so it works while no relay runs. Exits 1 if a database cannot be read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var limit config.Duration
			if maxAge != "" {
				var err error
				if limit, err = config.ParseDuration(maxAge); err != nil {
					return mistake{fmt.Errorf("--max-age: %w", err)}
				}
			}
			databases, _, err := c.databases()
			if err != nil {
				return err
			}
			statuses := make([]outboxStatus, len(databases))
			for i, d := range databases {
				statuses[i] = c.statusOf(cmd.Context(), d)
			}
			if asJSON {
				err = c.printJSON(map[string]any{"databases": statuses})
			} else {
				err = c.printStatus(statuses)
			}
			if err != nil {
				return err
			}
			return c.judge(statuses, maxAge != "", time.Duration(limit))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringVar(&maxAge, "max-age", "", "exit 1 if the oldest pending event is older: 5m")
	return cmd
}

// judge makes the exit code: a database that could not be read, or an event that
// is too old.
func (c *command) judge(statuses []outboxStatus, limited bool, limit time.Duration) error {
	var errs []error
	for _, s := range statuses {
		age := time.Duration(s.OldestPendingSeconds * float64(time.Second))
		switch {
		case s.Error != "":
			err := fmt.Errorf("database %q: %s", s.Name, s.Error)
			if s.Hint != "" {
				err = relay.Hint(err, s.Hint)
			}
			errs = append(errs, err)
		case limited && age > limit:
			errs = append(errs, relay.Hint(
				fmt.Errorf("database %q: the oldest pending event is %s old, more than %s", s.Name, age.Round(time.Second), limit),
				`"postrider why" says what an event waits for`))
		}
	}
	return errors.Join(errs...)
}

// statusOf reads one database. What cannot be read is said in Error, and what
// can be is still there.
func (c *command) statusOf(ctx context.Context, d config.Database) outboxStatus {
	s := outboxStatus{Name: d.Name, Relays: []inspect.Relay{}, Lanes: []inspect.LaneGroup{}}
	s.Topics = []relay.TopicReport{}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, err := c.open(ctx, d, false)
	if err != nil {
		s.fail(d, err)
		return s
	}
	defer db.Close() //nolint:errcheck // it only read
	if s.Report, err = c.reportOf(ctx, d, db); err != nil {
		s.fail(d, err)
		return s
	}
	if s.Topics == nil {
		s.Topics = []relay.TopicReport{}
	}
	// A role for monitoring may read the view alone: then there is nothing to say
	// of relays, and that is no error.
	if relays, lanes, err := db.outbox().Relays(ctx); err == nil {
		s.Relays, s.Lanes = relays, lanes.Groups()
		if s.Lanes == nil {
			s.Lanes = []inspect.LaneGroup{}
		}
	}
	if paused, err := db.outbox().Paused(ctx); err == nil {
		for _, p := range paused {
			s.Paused = append(s.Paused, p.Kind+" "+p.Name)
		}
	}
	for i := range s.Relays {
		s.Relays[i].Host = oneLine(s.Relays[i].Host)
	}
	return s
}

func (s *outboxStatus) fail(d config.Database, err error) {
	s.Error, s.Hint = oneLine(trimName(d, err)), relay.HintOf(err)
	if s.Hint == "" {
		s.Hint = hintFor(d, err)
	}
}

// reportOf asks the store, whose counts are bounded. Where the store does not
// open, since it is a standby or the role may only monitor, the view answers.
func (c *command) reportOf(ctx context.Context, d config.Database, db *connection) (relay.Report, error) {
	store, err := newStore(d, relayTimes{remember: c.remember})
	if err != nil {
		return relay.Report{}, mistake{err}
	}
	defer store.Close() //nolint:errcheck // it only read
	if _, err = store.Open(ctx); err == nil {
		if reporter, ok := store.(relay.Reporter); ok {
			return reporter.Report(ctx)
		}
	}
	if report, viewErr := db.outbox().Health(ctx); viewErr == nil {
		return report, nil
	}
	return relay.Report{}, err
}

func (c *command) printJSON(value any) error {
	var text strings.Builder
	out := json.NewEncoder(&text)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	if err := out.Encode(value); err != nil {
		return err
	}
	_, err := io.WriteString(c.stdout, c.secrets.ScrubValues(text.String()))
	return err
}
