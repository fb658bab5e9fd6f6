package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/internal/inspect"
	"github.com/postrider/postrider/relay"
)

// finding is what "why" has to say of one event.
type finding struct {
	Database string           `json:"database"`
	Event    *inspect.Event   `json:"event,omitempty"`
	Topic    string           `json:"topic,omitempty"` // of a key without a pending event
	Pending  int64            `json:"key_pending_events,omitempty"`
	Dead     int64            `json:"key_dead_events,omitempty"`
	Reasons  []inspect.Reason `json:"reasons"`
}

func (c *command) why() *cobra.Command {
	var key, topic string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "why ID | why --key KEY",
		Short: "Say why an event is not there: waiting, blocked, delivered, dead or unknown",
		Long: `Say why an event is not there. ID is the event's id (a UUID) or the number of its
row. With --key it is about the event that all others of the key wait for.
Reads the databases; what only a running relay knows is asked from its admin
address, if it answers.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			byKey := cmd.Flags().Changed("key")
			switch {
			case byKey == (len(args) == 1):
				return wrongWithHint("for example: postrider why 0190c8e2-..., or: postrider why --key order-17", "needs an id or --key, one of them")
			case topic != "" && !byKey:
				return wrong("--topic goes with --key")
			}
			databases, cfg, err := c.databases()
			if err != nil {
				return err
			}
			var all []finding
			err = c.eachDatabase(databases, func(d config.Database) error {
				found, err := c.whyIn(cmd.Context(), d, cfg, args, topic, key)
				if err != nil {
					return explain(d, err)
				}
				all = append(all, found...)
				return nil
			})
			if err != nil {
				return err
			}
			hideKeys(all, cfg.Log)
			if asJSON {
				if err := c.printJSON(map[string]any{"findings": orEmpty(all)}); err != nil {
					return err
				}
			} else {
				c.printFindings(all)
			}
			if len(all) == 0 {
				return unknown(args)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "ordering key")
	cmd.Flags().StringVar(&topic, "topic", "", "topic of the key (default: every topic)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// hideKeys hashes keys as the log does: what is printed ends up in tickets.
func hideKeys(all []finding, l config.Log) {
	for i := range all {
		if e := all[i].Event; e != nil && l.Keys != "plain" {
			e.Key = relay.HashKey(e.Key)
		}
	}
}

func unknown(args []string) error {
	if len(args) == 1 {
		return relay.Hint(errors.New("no event of this id is known"),
			"its transaction has not committed or was rolled back, it was delivered longer ago than the retention, or it is in another database")
	}
	return relay.Hint(errors.New("the key has no pending and no dead event"), "what was delivered is found by its id only")
}

func (c *command) whyIn(ctx context.Context, d config.Database, cfg *config.Config, args []string, topic, key string) ([]finding, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	db, err := c.open(ctx, d, false)
	if err != nil {
		return nil, err
	}
	defer db.Close() //nolint:errcheck // it only read
	o := db.outbox()
	if len(args) == 0 {
		return c.whyKey(ctx, o, d, cfg, topic, key)
	}
	events, err := o.Find(ctx, args[0])
	if errors.Is(err, inspect.ErrNoID) {
		return nil, mistake{err}
	}
	var all []finding
	for i := range events {
		reasons, reasonErr := c.reasons(ctx, o, d, cfg, events[i])
		err = errors.Join(err, reasonErr)
		all = append(all, finding{Database: d.Name, Event: &events[i], Reasons: reasons})
	}
	return all, err
}

func (c *command) whyKey(ctx context.Context, o inspect.Outbox, d config.Database, cfg *config.Config, topic, key string) ([]finding, error) {
	topics := []string{topic}
	if topic == "" {
		var err error
		if topics, err = o.TopicsOf(ctx, key); err != nil {
			return nil, err
		}
	}
	var all []finding
	for _, topic := range topics {
		f := finding{Database: d.Name, Topic: topic}
		var err error
		if f.Pending, f.Dead, err = o.Waiting(ctx, topic, key); err != nil {
			return nil, err
		}
		if f.Pending+f.Dead == 0 {
			continue
		}
		head, ok, err := o.Head(ctx, topic, key)
		if err != nil {
			return nil, err
		}
		if ok {
			f.Event = &head
			if f.Reasons, err = c.reasons(ctx, o, d, cfg, head); err != nil {
				return nil, err
			}
		} else {
			f.Reasons = []inspect.Reason{{Code: "none_due", Text: "no event of the key is due"}}
		}
		all = append(all, f)
	}
	return all, nil
}

// reasons are those of the tables and, for an event that could leave, what only
// a relay knows.
func (c *command) reasons(ctx context.Context, o inspect.Outbox, d config.Database, cfg *config.Config, e inspect.Event) ([]inspect.Reason, error) {
	var routed inspect.Routed
	if len(cfg.Routes) > 0 {
		routed = func(topic string) bool {
			return slices.ContainsFunc(cfg.Routes, func(r config.Route) bool { return r.Takes(topic, d.Name) })
		}
	}
	reasons, err := o.Why(ctx, e, routed)
	if err != nil || e.State != "pending" && e.State != "held" {
		return reasons, err
	}
	last := len(reasons) - 1
	if reasons[last].Code == "lane_owned" {
		silent, err := o.Silent(ctx, reasons[last].Relay, time.Duration(cfg.Relay.Lease)/5+time.Second/2)
		if err != nil {
			return nil, err
		}
		if silent {
			reasons[last].Text += ", which gives no sign of life"
			reasons[last].Hint = "another relay takes its lanes over once its lease has run out"
		}
	}
	return append(reasons, c.askRelay(ctx, cfg.Admin, d.Name)...), nil
}

func (c *command) printFindings(all []finding) {
	for i, f := range all {
		if i > 0 {
			fmt.Fprintln(c.stdout)
		}
		if f.Event != nil {
			e := f.Event
			fmt.Fprintln(c.stdout, c.secrets.Scrub(oneLine(fmt.Sprintf("event %s (row %d of %q, generation %d) of topic %q: %s",
				e.EventID, e.ID, f.Database, e.Generation, e.Topic, e.State))))
		} else {
			fmt.Fprintln(c.stdout, oneLine(fmt.Sprintf("topic %q of %q", f.Topic, f.Database)))
		}
		if f.Pending+f.Dead > 0 {
			fmt.Fprintf(c.stdout, "  the key has %d pending and %d dead events\n", f.Pending, f.Dead)
		}
		for _, r := range f.Reasons {
			fmt.Fprintln(c.stdout, "  "+c.secrets.Scrub(oneLine(r.Text)))
			if r.Hint != "" {
				fmt.Fprintln(c.stdout, "    hint: "+oneLine(r.Hint))
			}
		}
	}
}

func orEmpty(all []finding) []finding {
	if all == nil {
		return []finding{}
	}
	return all
}
