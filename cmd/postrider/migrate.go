package main

import (
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/cmd/postrider/internal/migrate"
	"github.com/postrider/postrider/outbox"
	"github.com/postrider/postrider/relay"
)

func (c *command) migrate() *cobra.Command {
	cmd := &cobra.Command{Use: "migrate", Short: "Make, change, list or remove Postrider's own tables"}
	cmd.AddCommand(
		&cobra.Command{
			Use:   "up",
			Short: "Make the tables, or bring them to this version",
			Long: `Make the tables, or bring them to this version. Needs the rights of their owner;
a relay does not. Waits at most 3 s for a lock, so that no writer waits behind it.
Running it twice, or twice at once, does no harm.`,
			Args: cobra.NoArgs,
			RunE: c.eachMigrator(true, func(cmd *cobra.Command, m *migrate.Migrator, name string) error {
				ran, err := m.Up(cmd.Context())
				if err == nil {
					c.report(name, "ran", ran, "nothing to do")
				}
				return err
			}),
		},
		&cobra.Command{
			Use:   "down",
			Short: "Remove the tables, but for an inbox in use; refuses while undelivered or dead events exist",
			Args:  cobra.NoArgs,
			RunE: c.eachMigrator(false, func(cmd *cobra.Command, m *migrate.Migrator, name string) error {
				ran, err := m.Down(cmd.Context())
				if err == nil {
					c.report(name, "undone", ran, "there are no tables")
				}
				return err
			}),
		},
		&cobra.Command{
			Use:   "status",
			Short: "List the migrations; exits 1 if one is missing",
			Args:  cobra.NoArgs,
			RunE:  c.eachMigrator(false, c.migrateStatus),
		},
		c.migratePrint(),
	)
	return cmd
}

// eachMigrator makes a subcommand of what is done for each database. It does all
// of them and then returns the first error, so that one database that is down
// does not keep the others from being migrated.
func (c *command) eachMigrator(create bool, do func(*cobra.Command, *migrate.Migrator, string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		databases, _, err := c.databases()
		if err != nil {
			return err
		}
		return c.eachDatabase(databases, func(d config.Database) error {
			db, err := c.open(cmd.Context(), d, create)
			if err != nil {
				return err
			}
			defer db.Close() //nolint:errcheck // the work is done or has failed
			options := outbox.MigrationOptions{Doorbell: outbox.Doorbell(d.Doorbell)}
			if err := do(cmd, migrate.New(db.DB, db.dialect, db.names, options), d.Name); err != nil {
				return explain(d, err)
			}
			return nil
		})
	}
}

func (c *command) report(database, verb string, ran []string, nothing string) {
	if len(ran) == 0 {
		fmt.Fprintf(c.stdout, "database %q: %s\n", database, nothing)
	}
	for _, name := range ran {
		fmt.Fprintf(c.stdout, "database %q: %s %s\n", database, verb, name)
	}
}

func (c *command) migrateStatus(cmd *cobra.Command, m *migrate.Migrator, name string) error {
	states, err := m.Status(cmd.Context())
	if err != nil {
		return err
	}
	missing := 0
	w := tabwriter.NewWriter(c.stdout, 0, 0, 2, ' ', 0)
	for _, s := range states {
		word := "applied"
		if !s.Applied {
			word = "missing"
			missing++
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, s.Name, word)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if missing > 0 {
		return silent(exitFailed)
	}
	return nil
}

func (c *command) migratePrint() *cobra.Command {
	var format, dialect string
	cmd := &cobra.Command{
		Use:   "print",
		Short: "Print the migrations for another tool, with the configured names",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var d config.Database
			if c.flags.database == "" && dialect != "" {
				d = config.Database{Schema: c.flags.schema, Table: c.flags.table, Prefix: c.flags.prefix}
			} else {
				one, _, err := c.oneDatabase()
				if errors.Is(err, errNoDatabase) {
					return relay.Hint(err, "name the dialect with --dialect postgres or --dialect sqlite, or a database with --database URL")
				}
				if err != nil {
					return err
				}
				d = one
				text, err := d.Connect()
				if err != nil {
					return err
				}
				scheme, err := config.SchemeOf(text)
				if err != nil {
					return mistake{err}
				}
				dialect = string(databasePlugins[scheme].dialect)
			}
			options := outbox.MigrationOptions{Doorbell: outbox.Doorbell(d.Doorbell)}
			if err := outbox.Print(c.stdout, outbox.Format(format), outbox.Dialect(dialect), namesOf(d), options); err != nil {
				return mistake{err}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "goose", "goose, flyway, atlas or sql")
	cmd.Flags().StringVar(&dialect, "dialect", "", "postgres or sqlite, where no database is named")
	return cmd
}
