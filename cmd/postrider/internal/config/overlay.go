package config

import "strings"

// overlay applies the flags, or the variables POSTRIDER_DATABASE and
// POSTRIDER_BROKER. They suffice without a file. Beside a file, the database
// takes the place of the URL of the file's only one, with all its other
// settings; the broker is the one that is named default.
func (c *Config) overlay(s Sources, lookup func(string) (string, bool), problems *Problems) {
	database, from := firstOf(s.Database, "--database", "POSTRIDER_DATABASE", lookup)
	if database != "" && len(c.Databases) == 0 {
		c.Databases = []Database{defaults[Database]()}
	}
	names := s.Schema + s.Table + s.Prefix
	switch {
	case database == "" && names == "":
	case len(c.Databases) > 1:
		if database == "" {
			from = "--schema, --table or --prefix"
		}
		problems.add("databases", "%s is for one database, and there are %d (set POSTRIDER_DATABASES__0__URL and the like)",
			from, len(c.Databases))
	case len(c.Databases) == 1:
		d := &c.Databases[0]
		if database != "" {
			d.URL, d.URLFile = urlOrFile(database)
			d.DirectURL, d.DirectURLFile = "", ""
		}
		d.Schema = orElse(s.Schema, d.Schema)
		d.Table = orElse(s.Table, d.Table)
		d.Prefix = orElse(s.Prefix, d.Prefix)
	}
	if broker, _ := firstOf(s.Broker, "--broker", "POSTRIDER_BROKER", lookup); broker != "" {
		b := defaults[Broker]()
		b.URL, b.URLFile = urlOrFile(broker)
		c.putBroker(b)
	}
}

// firstOf returns a flag's value or else a variable's, and where it is from.
func firstOf(flag, flagName, variable string, lookup func(string) (string, bool)) (value, from string) {
	if flag != "" {
		return flag, flagName
	}
	value, _ = lookup(variable)
	return value, variable
}

func orElse(value, fallback string) string {
	if value == "" {
		return fallback
	}
	return value
}

func (c *Config) putBroker(b Broker) {
	for i := range c.Brokers {
		if c.Brokers[i].Name == b.Name {
			c.Brokers[i] = b
			return
		}
	}
	c.Brokers = append(c.Brokers, b)
}

// urlOrFile splits what a flag says: a URL, or @FILE that holds it.
func urlOrFile(text string) (url, file string) {
	if file, ok := strings.CutPrefix(text, "@"); ok {
		return "", file
	}
	return text, ""
}
