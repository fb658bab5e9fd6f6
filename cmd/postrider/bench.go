package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/bench"
	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/cmd/postrider/internal/migrate"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func (c *command) bench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure speed on your own servers, beside the raw limit of the same run",
		Long: `Measure speed on your own servers, beside the raw limit of the same run.

The tables ` + bench.Prefix + `* and the destination ` + bench.Topic + ` are made for it and
removed; the outbox itself is not touched. It loads the servers: not for production.`,
	}
	cmd.AddCommand(c.benchDrain())
	return cmd
}

func (c *command) benchDrain() *cobra.Command {
	var d bench.Drain
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "drain",
		Short: "How fast a backlog leaves",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.Events < 1 || d.Keys < 1 || d.Payload < 0 {
				return wrong("--events and --keys must be at least 1, --payload at least 0")
			}
			return c.withBench(cmd.Context(), true, func(ctx context.Context, e *bench.Env) error {
				res, err := d.Run(ctx, e)
				if err != nil {
					return err
				}
				if asJSON {
					return c.printJSON(res)
				}
				fmt.Fprintf(c.stdout, "raw    %10.0f events/s\nrelay  %10.0f events/s\nratio  %10.2f\n", res.RawPerSecond, res.RelayPerSecond, res.Ratio)
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&d.Events, "events", 200000, "events in the backlog")
	flags.IntVar(&d.Keys, "keys", 10000, "distinct keys")
	flags.IntVar(&d.Payload, "payload", 300, "bytes of a payload")
	flags.DurationVar(&d.Retention, "retention", 24*time.Hour, "how long delivered events are kept; 0s is not at all")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// withBench makes the bench's tables, calls do, and removes them.
func (c *command) withBench(ctx context.Context, broker bool, do func(context.Context, *bench.Env) error) error {
	d, cfg, err := c.oneDatabase()
	if err != nil {
		return err
	}
	if broker && len(cfg.Brokers) == 0 {
		return wrongWithHint("name one with --broker URL", "no broker")
	}
	d.Prefix, d.Table = bench.Prefix, ""
	db, err := c.open(ctx, d, true)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // it has nothing to lose
	m := migrate.New(db.DB, db.dialect, db.names, outbox.MigrationOptions{})
	if _, err := m.Up(ctx); err != nil {
		return explain(d, err)
	}
	e := &bench.Env{
		DB: db.DB, Dialect: db.dialect, Names: db.names,
		Store: func(retention time.Duration) (relay.Store, error) {
			own := d
			own.Retention = config.Duration(retention)
			return newStore(own, relayTimes{publishTimeout: 5 * time.Second})
		},
		Log: func(format string, args ...any) { fmt.Fprintf(c.stderr, format+"\n", args...) },
	}
	cleanup := func() {}
	if broker {
		if cleanup, err = c.benchBroker(ctx, cfg.Brokers[0], e); err != nil {
			return err
		}
	}
	err = do(ctx, e)
	cleanup()
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_, downErr := m.Down(clean)
	return errors.Join(err, downErr)
}

// benchBroker fills in the broker, with a stream of its own where it is NATS.
func (c *command) benchBroker(ctx context.Context, b config.Broker, e *bench.Env) (cleanup func(), err error) {
	e.Broker = func() (relay.Broker, error) { return newBroker(b, c.stdout) }
	text, err := b.Connect()
	if err != nil {
		return nil, err
	}
	if scheme, _ := config.SchemeOf(text); scheme != "nats" {
		return func() {}, nil
	}
	nc, err := natsgo.Connect(text)
	if err != nil {
		return nil, fmt.Errorf("broker %q: %w", b.Name, err)
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(4000))
	if err != nil {
		return nil, err
	}
	stream := jetstream.StreamConfig{Name: bench.Topic, Subjects: []string{bench.Topic}, Storage: jetstream.FileStorage}
	if _, err := js.CreateOrUpdateStream(ctx, stream); err != nil {
		nc.Close()
		return nil, fmt.Errorf("broker %q: make the stream %q: %w", b.Name, bench.Topic, err)
	}
	options := maps.Clone(b.Options)
	delete(options, "create_stream")
	b.Options = options
	e.Raw = bench.NATSRaw(js)
	return func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		js.DeleteStream(clean, bench.Topic) //nolint:errcheck // left behind at worst; its name says what it is
		nc.Close()
	}, nil
}
