package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

func (c *command) relay() *cobra.Command {
	var once bool
	var logFormat string
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Move events from the outboxes to the brokers",
		Long: `Move events from the outboxes to the brokers, for as long as it takes.

What cannot be reached, at the start or later, is a line in the log and is tried
again for ever. A database that answers but cannot be served ends the relay.

SIGTERM or SIGINT: take no new events, wait up to relay.drain_timeout for what is
on its way. A second one: stop at once; nothing is lost, some events may be sent
again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			switch logFormat {
			case "":
			case "text", "json":
				cfg.Log.Format = logFormat
			default:
				return wrong("--log-format: must be text or json")
			}
			log := c.logger(cfg.Log)
			a, err := c.assemble(cfg, log)
			if err != nil {
				return err
			}
			return c.untilStopped(cmd.Context(), log, func(ctx context.Context) error {
				defer a.close()
				if once {
					return c.drain(ctx, a)
				}
				return c.serve(ctx, a, cfg, log)
			})
		},
	}
	cmd.Flags().BoolVar(&once, "once", false, "move what is due and exit; 1 if something due is left, with the reason")
	cmd.Flags().StringVar(&logFormat, "log-format", "", "text or json")
	return cmd
}

// echo is the time in which a second signal is taken for the first one: a
// supervisor that signals a process and its group sends it twice.
const echo = 100 * time.Millisecond

// untilStopped runs work with a context that the first signal ends. The second
// signal does not wait for work.
func (c *command) untilStopped(ctx context.Context, log *slog.Logger, work func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	defer signal.Stop(signals)
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var first time.Time
	for {
		select {
		case err := <-done:
			return err
		case s := <-signals:
			if !first.IsZero() && time.Since(first) < echo {
				continue
			}
			if !first.IsZero() {
				log.Warn("stopped at once", "signal", s.String())
				return silent(exitFailed)
			}
			first = time.Now()
			log.Info("stopping: waiting for what is on its way", "signal", s.String())
			stop()
		}
	}
}

// serve runs the relay with its HTTP listener.
func (c *command) serve(ctx context.Context, a *assembled, cfg *config.Config, log *slog.Logger) error {
	stopAdmin, err := c.listen(cfg, a.relay, log)
	if err != nil {
		return err
	}
	defer stopAdmin()
	log.Info("relay started", "version", versionName(), "databases", len(cfg.Databases), "brokers", len(cfg.Brokers))
	if err := a.relay.Run(ctx); err != nil {
		return err
	}
	log.Info("relay stopped")
	return nil
}

// drain makes one pass and says what is left and why.
func (c *command) drain(ctx context.Context, a *assembled) error {
	stopProgress := c.progress(a.relay)
	report, err := a.relay.Drain(ctx)
	stopProgress()
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		err = errors.New("interrupted before the pass was done")
	}
	if err != nil {
		return err
	}
	if report.Dead > 0 {
		fmt.Fprintf(c.stderr, "delivered %d events, %d became dead letters\n", report.Delivered, report.Dead)
	} else {
		fmt.Fprintf(c.stderr, "delivered %d events\n", report.Delivered)
	}
	if len(report.Left) == 0 {
		return nil
	}
	for _, l := range report.Left {
		fmt.Fprintln(c.stderr, c.secrets.Scrub(oneLine(fmt.Sprintf("left: database %q: %s: %s", l.Database, l.What, l.Why))))
	}
	return relay.Hint(errors.New("something that is due was not delivered"), `see "postrider status" and "postrider why"`)
}
