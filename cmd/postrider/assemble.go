package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

// assembled is a relay with what it was made of.
type assembled struct {
	relay   *relay.Relay
	stores  []relay.Store
	brokers map[string]relay.Broker
}

// assemble makes a relay of the configuration. It connects to nothing. What the
// adapters find wrong with their part comes back as problems with paths, all at
// once.
func (c *command) assemble(cfg *config.Config, log *slog.Logger) (*assembled, error) {
	a := &assembled{brokers: map[string]relay.Broker{}}
	problems := &config.Problems{}
	if len(cfg.Databases) == 0 {
		problems.Add("databases", "none (name one with --database URL, or in postrider.yaml)")
	}
	if len(cfg.Brokers) == 0 {
		problems.Add("brokers", "none (name one with --broker URL, or in postrider.yaml)")
	}
	rc := relay.Config{
		Brokers:        a.brokers,
		Lease:          time.Duration(cfg.Relay.Lease),
		PublishTimeout: time.Duration(cfg.Relay.PublishTimeout),
		DrainTimeout:   time.Duration(cfg.Relay.DrainTimeout),
		Memory:         int64(cfg.Relay.Memory),
		Active:         cfg.Relay.Active,
		Version:        versionName(),
		Logger:         log,
		PlainKeys:      cfg.Log.Keys == "plain",
	}
	for i, d := range cfg.Databases {
		store, err := newStore(d, relayTimes{rc.PublishTimeout, rc.Lease, c.remember})
		if err != nil {
			addAll(problems, fmt.Sprintf("databases[%d]", i), err)
			continue
		}
		a.stores = append(a.stores, store)
		rc.Databases = append(rc.Databases, relay.Database{
			Name: d.Name, Store: store, Claim: d.Claim,
			PollInterval: time.Duration(d.PollInterval), SweepInterval: time.Duration(d.SweepInterval),
			Batch: d.Batch, WhenFull: d.WhenFull, OnError: d.OnError,
		})
	}
	for i, b := range cfg.Brokers {
		broker, err := newBroker(b, c.stdout)
		if err != nil {
			addAll(problems, fmt.Sprintf("brokers[%d]", i), err)
			continue
		}
		a.brokers[b.Name] = broker
	}
	for _, r := range cfg.Routes {
		rc.Routes = append(rc.Routes, relay.Route{
			Topic: r.Topic, Database: r.Database, Broker: r.Broker, Destination: r.Destination,
			Format: r.Format, Source: r.Source, Headers: r.Headers, OnFailure: r.OnFailure, MaxAttempts: r.MaxAttempts,
		})
	}
	err := problems.Err()
	if err == nil {
		if a.relay, err = relay.New(rc); err != nil {
			addAll(problems, "", err)
			err = problems.Err()
		}
	}
	if err != nil {
		a.close()
		return nil, mistake{err}
	}
	return a, nil
}

// addAll adds each of the errors that were joined, below whatever marks them.
func addAll(problems *config.Problems, path string, err error) {
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		if joined, ok := inner.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				problems.Add(path, one.Error())
			}
			return
		}
	}
	problems.Add(path, err.Error())
}

// close releases everything.
func (a *assembled) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, b := range a.brokers {
		b.Close(ctx) //nolint:errcheck // the program is about to end, and all that mattered is settled
	}
	for _, s := range a.stores {
		s.Close() //nolint:errcheck // likewise
	}
}

// logger writes lines to the error output, without any secret.
func (c *command) logger(l config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		level = slog.LevelInfo // the configuration allows only names that it knows
	}
	options := &slog.HandlerOptions{Level: level}
	out := scrubbing{c.stderr, c.secrets}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(out, options))
	}
	return slog.New(slog.NewTextHandler(out, options))
}

// scrubbing removes secrets from each line. slog writes a line in one piece.
type scrubbing struct {
	out     io.Writer
	secrets *config.Scrubber
}

func (s scrubbing) Write(line []byte) (int, error) {
	if _, err := io.WriteString(s.out, s.secrets.Scrub(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
