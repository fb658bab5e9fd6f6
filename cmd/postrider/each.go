package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
	"github.com/postrider/postrider/relay"
)

// eachDatabase does something for each database, also after one has failed: one
// that is down must not hide the others. With several it prints each failure and
// returns that it has been said.
func (c *command) eachDatabase(databases []config.Database, do func(config.Database) error) error {
	if len(databases) == 1 {
		return do(databases[0])
	}
	code := silent(exitFine)
	for _, d := range databases {
		err := do(d)
		if err == nil {
			continue
		}
		code = max(code, exitFailed)
		if quiet, ok := errors.AsType[silent](err); ok {
			code = max(code, quiet)
		} else {
			c.printError(err)
		}
	}
	if code == exitFine {
		return nil
	}
	return code
}

// explain puts the database's name in front of an error, and a hint where the
// error has none and one is known.
func explain(d config.Database, err error) error {
	if _, ok := errors.AsType[silent](err); ok {
		return err
	}
	hint := relay.HintOf(err)
	if hint == "" {
		hint = hintFor(d, err)
	}
	err = named{fmt.Sprintf("database %q: %s", d.Name, trimName(d, err)), err}
	if hint == "" {
		return err
	}
	return relay.Hint(err, hint)
}

// named is an error with the database's name in its text.
type named struct {
	text string
	err  error
}

func (n named) Error() string { return n.text }
func (n named) Unwrap() error { return n.err }

// trimName is an error's text without the database's name at its head.
func trimName(d config.Database, err error) string {
	return strings.TrimPrefix(err.Error(), fmt.Sprintf("database %q: ", d.Name))
}

func hintFor(d config.Database, err error) string {
	text, connectErr := d.Connect()
	if connectErr != nil {
		return ""
	}
	scheme, _ := config.SchemeOf(text)
	if plugin, ok := databasePlugins[scheme]; ok {
		return plugin.hint(text, err)
	}
	return ""
}
