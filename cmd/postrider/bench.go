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
	cmd.AddCommand(c.benchDrain(), c.benchLatency(), c.benchWrite())
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
			return c.withBench(cmd.Context(), func(ctx context.Context, e *bench.Env) error {
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

func (c *command) benchLatency() *cobra.Command {
	var l bench.Latency
	var read string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "latency",
		Short: "Time from commit to the broker's acknowledgement",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if l.Rate <= 0 || l.Duration <= 0 || l.Payload < 0 {
				return wrong("--rate and --duration must be above 0, --payload at least 0")
			}
			if read != "poll" {
				return wrong("--read %s: this version reads with poll", read)
			}
			return c.withBench(cmd.Context(), func(ctx context.Context, e *bench.Env) error {
				res, err := l.Run(ctx, e)
				if err != nil {
					return err
				}
				if asJSON {
					return c.printJSON(res)
				}
				fmt.Fprintf(c.stdout, "p50   %8.2f ms\np99   %8.2f ms\nmax   %8.2f ms\nrate  %8.0f events/s\n", res.P50, res.P99, res.Max, res.Rate)
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.Float64Var(&l.Rate, "rate", 500, "events a second")
	flags.DurationVar(&l.Duration, "duration", 30*time.Second, "how long")
	flags.IntVar(&l.Payload, "payload", 300, "bytes of a payload")
	flags.StringVar(&read, "read", "poll", "how the relay reads: poll")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (c *command) benchWrite() *cobra.Command {
	var w bench.Write
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "write",
		Short: "What a relay costs the writers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.Writers < 1 || w.Duration <= 0 || w.Payload < 0 {
				return wrong("--writers must be at least 1, --duration above 0, --payload at least 0")
			}
			return c.withBench(cmd.Context(), func(ctx context.Context, e *bench.Env) error {
				res, err := w.Run(ctx, e)
				if err != nil {
					return err
				}
				if asJSON {
					return c.printJSON(res)
				}
				fmt.Fprintf(c.stdout, "plain table    %8.0f commits/s\nwithout relay  %8.0f commits/s\nwith relay     %8.0f commits/s\nratio          %8.2f\n", res.Plain, res.Without, res.With, res.Ratio)
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&w.Writers, "writers", 32, "concurrent writers")
	flags.DurationVar(&w.Duration, "duration", 10*time.Second, "how long, for each of the three")
	flags.IntVar(&w.Payload, "payload", 300, "bytes of a payload")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// withBench makes the bench's tables, calls do, and removes them.
func (c *command) withBench(ctx context.Context, do func(context.Context, *bench.Env) error) error {
	d, cfg, err := c.oneDatabase()
	if err != nil {
		return err
	}
	if len(cfg.Brokers) == 0 {
		return wrongWithHint("name one with --broker URL", "no broker")
	}
	d.Prefix, d.Table = bench.Prefix, ""
	db, err := c.open(ctx, d, true)
	if err != nil {
		return err
	}
	defer db.Close()                         //nolint:errcheck // it has nothing to lose
	db.names.Inbox = bench.Prefix + "_inbox" // not the one that the schema's outboxes share
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
	err = c.onBroker(ctx, cfg.Brokers[0], e, do)
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	if err != nil {
		err = errors.Join(err, e.Empty(clean)) // tables with events are not removed
	}
	_, downErr := m.Down(clean)
	return errors.Join(err, downErr)
}

// onBroker makes the broker's stream, calls do, and removes it.
func (c *command) onBroker(ctx context.Context, b config.Broker, e *bench.Env, do func(context.Context, *bench.Env) error) error {
	cleanup, err := c.benchBroker(ctx, b, e)
	if err != nil {
		return err
	}
	defer cleanup()
	return do(ctx, e)
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
