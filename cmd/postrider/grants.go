package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/store/postgres"
)

func (c *command) grants() *cobra.Command {
	var roles postgres.Roles
	cmd := &cobra.Command{
		Use:   "grants",
		Short: "Print the GRANTs for writers, relays and monitors (PostgreSQL)",
		Long: `Print the GRANTs that give each role what it needs and no more, for the owner of
the tables to run. They can be run again. Connects to nothing.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if roles == (postgres.Roles{}) {
				return wrongWithHint("for example: postrider grants --writer app --relay postrider --monitor grafana", "no role is named")
			}
			databases, err := c.namedDatabases()
			if err != nil {
				return err
			}
			for _, d := range databases {
				if len(databases) > 1 {
					fmt.Fprintf(c.stdout, "-- database %s\n", d.Name)
				}
				for _, statement := range postgres.Grants(namesOf(d), roles) {
					fmt.Fprintln(c.stdout, statement+";")
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&roles.Writer, "writer", "", "role of the applications that write events")
	cmd.Flags().StringVar(&roles.Relay, "relay", "", "role of the relays")
	cmd.Flags().StringVar(&roles.Monitor, "monitor", "", "role of monitoring")
	return cmd
}

// namedDatabases are the PostgreSQL databases of the configuration, or what the
// flags say of names where none is configured.
func (c *command) namedDatabases() ([]config.Database, error) {
	cfg, err := c.load()
	if err != nil {
		return nil, err
	}
	if len(cfg.Databases) == 0 {
		d := config.Database{Schema: c.flags.schema, Table: c.flags.table, Prefix: c.flags.prefix}
		if err := namesOf(d).Validate(outbox.Postgres); err != nil {
			return nil, mistake{err}
		}
		return []config.Database{d}, nil
	}
	databases, _, err := c.databases()
	if err != nil {
		return nil, err
	}
	var postgres []config.Database
	for _, d := range databases {
		text, err := d.Connect()
		if err != nil {
			return nil, mistake{err}
		}
		if scheme, _ := config.SchemeOf(text); databasePlugins[scheme].dialect == outbox.Postgres {
			postgres = append(postgres, d)
		}
	}
	if len(postgres) == 0 {
		return nil, wrong("SQLite has no roles and no grants: whoever may open the file may do everything")
	}
	return postgres, nil
}
