package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

// The exit codes of every subcommand.
const (
	exitFine    = 0
	exitFailed  = 1 // the check or the run failed
	exitMistake = 2 // usage or configuration
)

// command is one run of the program. Nothing of it is global, so that tests run
// many at once.
type command struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            []string
	flags          globalFlags
	// secrets are removed from everything that is printed.
	secrets *config.Scrubber
	// started says that a subcommand's own code runs: errors before it are
	// cobra's, about flags and arguments.
	started bool
}

// globalFlags are those of every subcommand.
type globalFlags struct {
	config, database, broker string
	schema, table, prefix    string
	only                     string
}

// run is the whole program but for the process around it. It returns the exit
// code. It prints an error as one line, and behind it a hint where there is one.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	c := &command{stdin: stdin, stdout: stdout, stderr: stderr, env: env, secrets: new(config.Scrubber)}
	root := c.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitFine
	}
	if quiet, ok := errors.AsType[silent](err); ok {
		return int(quiet)
	}
	if !c.started && relay.HintOf(err) == "" {
		err = relay.Hint(err, `"postrider help" lists the commands, "postrider COMMAND --help" the flags of one`)
	}
	c.printError(err)
	if _, ok := errors.AsType[*config.Problems](err); ok || !c.started {
		return exitMistake
	}
	if _, ok := errors.AsType[mistake](err); ok {
		return exitMistake
	}
	return exitFailed
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "postrider",
		Short:         "A transactional outbox: events leave the database exactly when their transaction commits",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	flags := root.PersistentFlags()
	flags.StringVar(&c.flags.config, "config", "", "configuration file (also $POSTRIDER_CONFIG; default ./postrider.yaml, /etc/postrider/postrider.yaml)")
	flags.StringVar(&c.flags.database, "database", "", "URL of the database, or @FILE that holds it (also $POSTRIDER_DATABASE)")
	flags.StringVar(&c.flags.broker, "broker", "", "URL of the broker named default, or @FILE that holds it (also $POSTRIDER_BROKER)")
	flags.StringVar(&c.flags.schema, "schema", "", "schema of the tables")
	flags.StringVar(&c.flags.table, "table", "", "name of the outbox table")
	flags.StringVar(&c.flags.prefix, "prefix", "", "prefix of the other tables' names (default outbox)")
	flags.StringVar(&c.flags.only, "only", "", "name of the one database to work on, where the configuration has several")
	for _, build := range subcommands {
		sub := build(c)
		c.mark(sub)
		root.AddCommand(sub)
	}
	return root
}

// subcommands is the one list of them, in the order of the help.
var subcommands = []func(*command) *cobra.Command{
	(*command).demo,
	(*command).demoRelay,
	(*command).migrate,
	(*command).grants,
	(*command).relay,
	(*command).status,
	(*command).why,
	(*command).write,
	(*command).bench,
	(*command).config,
	(*command).version,
}

// mark makes a subcommand note that its own code runs.
func (c *command) mark(sub *cobra.Command) {
	if body := sub.RunE; body != nil {
		sub.RunE = func(cmd *cobra.Command, args []string) error {
			c.started = true
			return body(cmd, args)
		}
	}
	for _, child := range sub.Commands() {
		c.mark(child)
	}
}

// mistake is an error of usage or configuration.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

// wrong makes a mistake of a text.
func wrong(format string, args ...any) error { return mistake{fmt.Errorf(format, args...)} }

// wrongWithHint is wrong with what to do about it.
func wrongWithHint(hint, format string, args ...any) error {
	return mistake{relay.Hint(fmt.Errorf(format, args...), hint)}
}

// silent is an exit code whose reason has been printed.
type silent int

func (s silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// printError prints an error as one line and its hint as another. A
// configuration's list of problems keeps its lines.
func (c *command) printError(err error) {
	text := err.Error()
	if _, ok := errors.AsType[*config.Problems](err); !ok {
		text = oneLine(text)
	}
	fmt.Fprintln(c.stderr, "error: "+c.secrets.Scrub(text))
	if hint := relay.HintOf(err); hint != "" {
		fmt.Fprintln(c.stderr, "hint: "+c.secrets.Scrub(oneLine(hint)))
	}
}

// oneLine joins the lines of a text and takes out what a terminal would obey:
// errors quote what servers and tables hold.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.Join(lines, "; "))
}
