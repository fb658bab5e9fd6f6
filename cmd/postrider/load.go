package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/postrider/postrider/admin"
	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/outbox"
)

// load reads the configuration in all its layers.
func (c *command) load() (*config.Config, error) {
	cfg, err := config.Load(config.Sources{
		File:     c.flags.config,
		Database: c.flags.database,
		Broker:   c.flags.broker,
		Schema:   c.flags.schema,
		Table:    c.flags.table,
		Prefix:   c.flags.prefix,
		Env:      c.env,
	}, config.Known{
		Databases: databaseSchemes(),
		Brokers:   brokerSchemes(),
		Metrics:   admin.MetricNames(),
		Names:     checkNames,
		DatabaseURL: func(scheme, text string) error {
			return databasePlugins[scheme].check(text)
		},
	})
	if err != nil {
		return nil, mistake{err}
	}
	for _, d := range cfg.Databases {
		c.remember(d.Connect())
		c.remember(d.ConnectDirect())
	}
	for _, b := range cfg.Brokers {
		c.remember(b.URL, nil)
		c.remember(b.Connect())
		c.secrets.AddOptions(b.Options)
	}
	return cfg, nil
}

func (c *command) remember(url string, err error) {
	if err == nil && url != "" {
		c.secrets.AddURL(url)
	}
}

var errNoDatabase = errors.New("no database is configured")

// databases returns the databases that a subcommand works on: all of the
// configuration, or the one that --only names.
func (c *command) databases() ([]config.Database, *config.Config, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, nil, err
	}
	if len(cfg.Databases) == 0 {
		return nil, nil, wrongWithHint("name it with --database URL, or in postrider.yaml", "%w", errNoDatabase)
	}
	if c.flags.only == "" {
		return cfg.Databases, cfg, nil
	}
	i := slices.IndexFunc(cfg.Databases, func(d config.Database) bool { return d.Name == c.flags.only })
	if i < 0 {
		var names []string
		for _, d := range cfg.Databases {
			names = append(names, d.Name)
		}
		return nil, nil, wrongWithHint("the configuration has "+strings.Join(names, ", "), "no database is named %q", c.flags.only)
	}
	return cfg.Databases[i : i+1], cfg, nil
}

// oneDatabase is databases for a subcommand that works on a single one.
func (c *command) oneDatabase() (config.Database, *config.Config, error) {
	all, cfg, err := c.databases()
	if err != nil {
		return config.Database{}, nil, err
	}
	if len(all) > 1 {
		return config.Database{}, nil, wrongWithHint("name one with --only", "the configuration has %d databases", len(all))
	}
	return all[0], cfg, nil
}

// namesOf are the names of a database's tables.
func namesOf(d config.Database) outbox.Names {
	return outbox.Names{Schema: d.Schema, Table: d.Table, Prefix: d.Prefix}
}

// checkNames checks names against a dialect's rules, for the configuration.
func checkNames(scheme string, d config.Database) error {
	return namesOf(d).Validate(databasePlugins[scheme].dialect)
}
