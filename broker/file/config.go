package file

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// Config says where the lines go. Exactly one of Path and Writer is needed.
type Config struct {
	// Path is the file. It is made where it is missing, not its folder.
	Path string
	// Writer takes the lines instead of a file. Each write holds whole lines.
	// It is not closed.
	Writer io.Writer
	// NoSync leaves out the sync before events count as accepted: a crash of
	// the machine may lose them. Default false.
	NoSync bool
	// Mode is the permissions of a file that is made. Default 0600: events may
	// hold what not everyone should read.
	Mode os.FileMode
}

// Parse makes a Config from "file:PATH" or "stdout:", which may carry options in
// a query ("file:events.jsonl?sync=false"), and from options by name: sync (true)
// and mode (0600, octal). stdout is where "stdout:" writes.
func Parse(rawURL string, options map[string]string, stdout io.Writer) (Config, error) {
	var c Config
	base, query, _ := strings.Cut(rawURL, "?")
	values, err := url.ParseQuery(query)
	if err != nil {
		return c, errors.New("file broker: the query of the url is malformed")
	}
	scheme, path, _ := strings.Cut(base, ":")
	switch scheme {
	case "stdout":
		c.Writer = stdout
	case "file":
		c.Path = strings.TrimPrefix(path, "//") // file:///var/x and file:/var/x are the same
	default:
		return c, errors.New("file broker: url: neither file:PATH nor the word stdout with a colon")
	}
	merged := map[string]string{}
	for name := range values {
		merged[name] = values.Get(name)
	}
	maps.Copy(merged, options)
	var errs []error
	for name, value := range merged {
		errs = append(errs, c.set(name, value))
	}
	return c, errors.Join(errs...)
}

func (c *Config) set(name, value string) error {
	switch name {
	case "sync":
		on, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("file broker: option %q: %q: not true or false", name, value)
		}
		c.NoSync = !on
	case "mode":
		mode, err := strconv.ParseUint(value, 8, 32)
		if err != nil || mode > 0o777 {
			return fmt.Errorf("file broker: option %q: %q: not permissions such as 0640", name, value)
		}
		c.Mode = os.FileMode(mode)
	default:
		return fmt.Errorf("file broker: option %q: unknown, not one of mode, sync", name)
	}
	return nil
}

func (c Config) validate() error {
	switch {
	case c.Path == "" && c.Writer == nil:
		return errors.New("file broker: path: missing")
	case c.Path != "" && c.Writer != nil:
		return errors.New("file broker: path and writer: only one of them")
	}
	return nil
}
