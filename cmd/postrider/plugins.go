package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider/broker/file"
	"github.com/postrider/postrider/broker/nats"
	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
	"github.com/postrider/postrider/store/postgres"
	"github.com/postrider/postrider/store/sqlite"
)

// This is the one list of databases and brokers that the binary has. To add one,
// add a line to a map and the function that it names.

// databasePlugins are the databases by the scheme of their URL.
var databasePlugins = map[string]databasePlugin{
	"postgres":   {outbox.Postgres, checkPostgres, openPostgres, newPostgres, postgresHint},
	"postgresql": {outbox.Postgres, checkPostgres, openPostgres, newPostgres, postgresHint},
	"sqlite":     {outbox.SQLite, checkSQLite, openSQLite, newSQLite, sqliteHint},
}

// brokerPlugins are the brokers by the scheme of their URL.
var brokerPlugins = map[string]brokerPlugin{
	"nats":   newNATS,
	"tls":    newNATS,
	"file":   newFile,
	"stdout": newFile,
}

// databasePlugin is what the command needs of a kind of database.
type databasePlugin struct {
	dialect outbox.Dialect
	// check finds what is wrong with a URL, without showing any of it.
	check func(url string) error
	// open connects without a store, for the commands that look or migrate.
	open func(url string, create bool) (*sql.DB, error)
	// store makes a relay's store. It does not connect.
	store func(config.Database, relayTimes) (relay.Store, error)
	// hint says what to do about an error, or "".
	hint func(url string, err error) string
}

// relayTimes are the relay's times that a store has to know.
type relayTimes struct{ publishTimeout time.Duration }

// brokerPlugin makes a broker of a kind. It does not connect.
type brokerPlugin func(b config.Broker, options map[string]string, stdout io.Writer) (relay.Broker, error)

func databaseSchemes() []string { return slices.Sorted(maps.Keys(databasePlugins)) }
func brokerSchemes() []string   { return slices.Sorted(maps.Keys(brokerPlugins)) }

// newStore makes the store of a database.
func newStore(d config.Database, times relayTimes) (relay.Store, error) {
	text, err := d.Connect()
	if err != nil {
		return nil, err
	}
	scheme, err := config.SchemeOf(text)
	if err != nil {
		return nil, err
	}
	plugin, ok := databasePlugins[scheme]
	if !ok {
		return nil, fmt.Errorf("no adapter for %s: in this build", scheme)
	}
	return plugin.store(d, times)
}

// newBroker makes a broker.
func newBroker(b config.Broker, stdout io.Writer) (relay.Broker, error) {
	text, err := b.Connect()
	if err != nil {
		return nil, err
	}
	scheme, err := config.SchemeOf(text)
	if err != nil {
		return nil, err
	}
	plugin, ok := brokerPlugins[scheme]
	if !ok {
		return nil, fmt.Errorf("no adapter for %s: in this build", scheme)
	}
	options, err := b.AllOptions()
	if err != nil {
		return nil, err
	}
	return plugin(b, options, stdout)
}

func newPostgres(d config.Database, times relayTimes) (relay.Store, error) {
	cfg := postgres.Config{
		URLFunc:        func(context.Context) (string, error) { return d.Connect() },
		Names:          namesOf(d),
		Retention:      time.Duration(d.Retention),
		History:        postgres.History(d.History),
		DeadRetention:  time.Duration(d.DeadRetention),
		Doorbell:       postgres.Doorbell(d.Doorbell),
		PublishTimeout: times.publishTimeout,
	}
	if d.Retention == 0 {
		cfg.Retention = postgres.NoRetention
	}
	if d.DirectURL != "" || d.DirectURLFile != "" {
		cfg.DirectURLFunc = func(context.Context) (string, error) { return d.ConnectDirect() }
	}
	return postgres.New(cfg)
}

func newSQLite(d config.Database, times relayTimes) (relay.Store, error) {
	text, err := d.Connect()
	if err != nil {
		return nil, err
	}
	cfg := sqlite.Config{
		URL:            text,
		Names:          namesOf(d),
		Retention:      time.Duration(d.Retention),
		History:        sqlite.History(d.History),
		DeadRetention:  time.Duration(d.DeadRetention),
		PublishTimeout: times.publishTimeout,
	}
	if d.Retention == 0 {
		cfg.Retention = -1
	}
	return sqlite.New(cfg)
}

func newNATS(b config.Broker, options map[string]string, _ io.Writer) (relay.Broker, error) {
	text := ""
	if b.URLFile == "" {
		text, _ = b.Connect() // without url_file there is nothing that can fail
	}
	cfg, err := nats.Parse(text, options)
	if err != nil {
		return nil, err
	}
	cfg.URLFile = b.URLFile
	cfg.TLS = nats.TLS{CAFile: b.TLS.CAFile, CertFile: b.TLS.CertFile, KeyFile: b.TLS.KeyFile}
	return nats.New(cfg)
}

func newFile(b config.Broker, options map[string]string, stdout io.Writer) (relay.Broker, error) {
	text, err := b.Connect()
	if err != nil {
		return nil, err
	}
	cfg, err := file.Parse(text, options, stdout)
	if err != nil {
		return nil, err
	}
	return file.New(cfg)
}
