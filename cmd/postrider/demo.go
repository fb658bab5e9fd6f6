package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/demo"
	"github.com/postrider/postrider/cmd/postrider/internal/migrate"
	"github.com/postrider/postrider/outbox"
)

// demoRelay is the hidden subcommand of the demo's relay processes.
const demoRelay = "demo-relay"

func (c *command) demo() *cobra.Command {
	var events int
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "The whole story on this machine, without any server",
		Long: `The whole story on this machine, without any server: writers with rollbacks, two
relay processes of which one is killed between publish and settle and restarted,
a stream, a consumer with an inbox. The last line is an account of every event;
exits 1 if one was lost, invented or out of order.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if events < 10 {
				return wrong("--events must be at least 10")
			}
			account, err := demo.Run(cmd.Context(), demo.Config{
				Events: events, Out: c.stdout, Relay: relayProcess, Migrate: migrateFile,
			})
			if err != nil {
				return err
			}
			fmt.Fprintln(c.stdout, account)
			if !account.Fine() {
				return silent(exitFailed)
			}
			return nil
		},
	}
	cmd.Flags().IntVar(&events, "events", 2000, "events to write, those rolled back included")
	cmd.Flags().Bool("no-ui", false, "print lines only")
	return cmd
}

// demoRelay is one relay process of the demo.
func (c *command) demoRelay() *cobra.Command {
	return &cobra.Command{
		Use: demoRelay + " FILE URL STALL", Hidden: true, Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			stall, err := strconv.Atoi(args[2])
			if err != nil {
				return mistake{err}
			}
			return demo.Serve(cmd.Context(), c.stdout, args[0], args[1], stall)
		},
	}
}

// relayProcess runs this program again as a relay of the demo.
func relayProcess(ctx context.Context, file, url string, stall int) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.CommandContext(ctx, self, demoRelay, file, url, strconv.Itoa(stall))
}

func migrateFile(ctx context.Context, file string) error {
	db, err := openSQLite("sqlite:"+file, true)
	if err != nil {
		return err
	}
	defer db.Close() //nolint:errcheck // migrated by then
	_, err = migrate.New(db, outbox.SQLite, outbox.Names{}, outbox.MigrationOptions{}).Up(ctx)
	return err
}
