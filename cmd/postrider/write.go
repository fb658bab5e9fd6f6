package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/outbox"
)

// writeFlags are an event as the command line spells it.
type writeFlags struct {
	topic, key, typ, payload, contentType, id, at string
	headers                                       []string
	schemaVersion                                 int
	subjectVersion                                int64
	tombstone                                     bool
}

func (c *command) write() *cobra.Command {
	var f writeFlags
	cmd := &cobra.Command{
		Use:   "write --topic TOPIC",
		Short: "Write one event, in a transaction of its own",
		Long: `Write one event, in a transaction of its own, and print its id. The payload is
what --payload says, or the standard input, byte for byte.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, _, err := c.oneDatabase()
			if err != nil {
				return err
			}
			event, err := c.eventOf(f, cmd.Flags().Changed("payload"))
			if err != nil {
				return err
			}
			db, err := c.open(cmd.Context(), d, false)
			if err != nil {
				return err
			}
			defer db.Close() //nolint:errcheck // it is committed or has failed
			writer, err := outbox.NewWriter(db.dialect, outbox.Config{Names: db.names})
			if err != nil {
				return mistake{err}
			}
			tx, err := db.BeginTx(cmd.Context(), nil)
			if err != nil {
				return explain(d, err)
			}
			defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
			if err := writer.Write(cmd.Context(), tx, event); err != nil {
				if _, ok := errors.AsType[*outbox.ValidationError](err); ok {
					return mistake{err}
				}
				return explain(d, err)
			}
			if err := tx.Commit(); err != nil {
				return explain(d, err)
			}
			fmt.Fprintln(c.stdout, event.ID)
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "topic (required)")
	flags.StringVar(&f.key, "key", "", "ordering key")
	flags.StringVar(&f.typ, "type", "", "what happened: order.placed")
	flags.StringVar(&f.payload, "payload", "", "payload; without it the standard input is read")
	flags.BoolVar(&f.tombstone, "tombstone", false, "no payload at all")
	flags.StringVar(&f.contentType, "content-type", "", "media type of the payload (default application/json)")
	flags.StringArrayVar(&f.headers, "header", nil, "header as NAME=VALUE; may be given several times")
	flags.StringVar(&f.id, "id", "", "event id, a UUID (default a new one)")
	flags.StringVar(&f.at, "at", "", "when it is due: 2026-01-31T15:04:05Z, or 10m for ten minutes from now")
	flags.IntVar(&f.schemaVersion, "schema-version", 0, "version of the payload's schema")
	flags.Int64Var(&f.subjectVersion, "subject-version", 0, "version of the aggregate")
	return cmd
}

func (c *command) eventOf(f writeFlags, hasPayload bool) (outbox.Event, error) {
	e := outbox.Event{
		ID: outbox.NewID(), Topic: f.topic, Key: f.key, Type: f.typ, ContentType: f.contentType,
		SchemaVersion: f.schemaVersion, SubjectVersion: f.subjectVersion,
	}
	if f.topic == "" {
		return e, wrongWithHint("for example: postrider write --topic orders --key 17 --payload '{}'", "--topic is missing")
	}
	if f.id != "" {
		id, err := outbox.ParseID(f.id)
		if err != nil {
			return e, mistake{fmt.Errorf("--id: %w", err)}
		}
		e.ID = id
	}
	if f.at != "" {
		at, err := parseMoment(f.at)
		if err != nil {
			return e, mistake{fmt.Errorf("--at: %w", err)}
		}
		e.AvailableAt = at
	}
	for i, header := range f.headers {
		name, value, found := strings.Cut(header, "=")
		if !found || name == "" { // not quoted: it may be a value alone
			return e, wrong("--header number %d is not NAME=VALUE", i+1)
		}
		if e.Headers == nil {
			e.Headers = map[string]string{}
		}
		e.Headers[name] = value
	}
	switch {
	case f.tombstone && hasPayload:
		return e, wrong("--tombstone and --payload exclude each other")
	case f.tombstone:
	case hasPayload:
		e.Payload = []byte(f.payload)
	default:
		payload, err := io.ReadAll(c.stdin)
		if err != nil {
			return e, fmt.Errorf("payload from the standard input: %w", err)
		}
		e.Payload = append([]byte{}, payload...) // an empty payload is not a tombstone
	}
	return e, nil
}

func parseMoment(text string) (time.Time, error) {
	if d, err := time.ParseDuration(strings.TrimPrefix(text, "+")); err == nil {
		return time.Now().Add(d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("%q is neither a time (2026-01-31T15:04:05Z) nor a duration (10m)", text)
	}
	return at, nil
}
