package nats

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// setters are the options of a configuration file and of a URL's query, by name.
var setters = map[string]func(*Config, string) error{
	"creds_file":       text(func(c *Config) *string { return &c.CredsFile }),
	"nkey_file":        text(func(c *Config) *string { return &c.NkeyFile }),
	"token_file":       text(func(c *Config) *string { return &c.TokenFile }),
	"name":             text(func(c *Config) *string { return &c.Name }),
	"inbox_prefix":     text(func(c *Config) *string { return &c.InboxPrefix }),
	"domain":           text(func(c *Config) *string { return &c.Domain }),
	"max_pending":      number(func(c *Config) *int { return &c.MaxPending }),
	"connect_timeout":  duration(func(c *Config) *time.Duration { return &c.ConnectTimeout }),
	"ping_interval":    duration(func(c *Config) *time.Duration { return &c.PingInterval }),
	"retry_horizon":    duration(func(c *Config) *time.Duration { return &c.RetryHorizon }),
	"create_stream":    boolean(func(c *Config) *bool { return &c.CreateStream }),
	"stream":           text(func(c *Config) *string { return &c.Stream.Name }),
	"replicas":         number(func(c *Config) *int { return &c.Stream.Replicas }),
	"duplicate_window": duration(func(c *Config) *time.Duration { return &c.Stream.DuplicateWindow }),
	"max_age":          duration(func(c *Config) *time.Duration { return &c.Stream.MaxAge }),
	"subjects": func(c *Config, v string) error {
		c.Stream.Subjects = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
		return nil
	},
}

// Options returns the names of the options that Parse knows.
func Options() []string { return slices.Sorted(maps.Keys(setters)) }

// Parse makes a Config from a URL, which may carry options in its query
// ("nats://localhost?create_stream=true"), and from options by name. Those given
// in both are taken from options. All mistakes are reported at once.
func Parse(rawURL string, options map[string]string) (Config, error) {
	base, query, _ := strings.Cut(rawURL, "?")
	c := Config{URL: base}
	values, err := url.ParseQuery(query)
	if err != nil {
		return c, errors.New("nats broker: the query of the url is malformed") // its text may hold a secret
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, ok := options[name]; !ok {
			errs = append(errs, c.set(name, strings.Join(values[name], ",")))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		errs = append(errs, c.set(name, options[name]))
	}
	return c, errors.Join(errs...)
}

func (c *Config) set(name, value string) error {
	setter, ok := setters[name]
	if !ok {
		return fmt.Errorf("nats broker: option %q: unknown, not one of %s", name, strings.Join(Options(), ", "))
	}
	if err := setter(c, value); err != nil {
		return fmt.Errorf("nats broker: option %q: %w", name, err)
	}
	return nil
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *field(c) = v; return nil }
}

func number(field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *field(c), err = strconv.Atoi(v); err != nil {
			return fmt.Errorf("%q: not a number", v)
		}
		return nil
	}
}

func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *field(c), err = strconv.ParseBool(v); err != nil {
			return fmt.Errorf("%q: not true or false", v)
		}
		return nil
	}
}

func duration(field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, v string) (err error) {
		if *field(c), err = time.ParseDuration(v); err != nil {
			return fmt.Errorf("%q: not a duration such as 30s", v)
		}
		return nil
	}
}
