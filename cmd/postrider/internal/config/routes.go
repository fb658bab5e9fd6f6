package config

import (
	"slices"
	"strings"

	"github.com/postrider/postrider/wire"
)

// completeRoutes fills in what may be left out: without routes, everything goes
// to the only broker, or to the one named default.
func (c *Config) completeRoutes(problems *Problems) {
	if len(c.Brokers) == 0 {
		if len(c.Routes) > 0 {
			problems.add("brokers", "missing: there are routes")
		}
		return
	}
	fallback := "" // none if there are several and none is named default
	if len(c.Brokers) == 1 || slices.ContainsFunc(c.Brokers, func(b Broker) bool { return b.Name == "default" }) {
		fallback = "default"
		if len(c.Brokers) == 1 {
			fallback = c.Brokers[0].Name
		}
	}
	if len(c.Routes) == 0 {
		if fallback == "" {
			problems.add("routes", "missing: there are %d brokers and none is named default", len(c.Brokers))
			return
		}
		c.Routes = []Route{defaults[Route]()}
	}
	for i := range c.Routes {
		if r := &c.Routes[i]; r.Broker == "" {
			r.Broker = fallback
			if fallback == "" {
				problems.add(index("routes", i)+".broker", "missing: there are %d brokers and none is named default", len(c.Brokers))
			}
		}
	}
}

func (c *Config) checkRoutes(problems *Problems) {
	for i, r := range c.Routes {
		path := index("routes", i)
		if r.Topic == "" {
			problems.add(path+".topic", "empty")
		}
		known := slices.ContainsFunc(c.Brokers, func(b Broker) bool { return b.Name == r.Broker })
		if r.Broker != "" && !known && len(c.Brokers) > 0 {
			problems.add(path+".broker", "no broker is named %q", r.Broker)
		}
		named := slices.ContainsFunc(c.Databases, func(d Database) bool { return d.Name == r.Database })
		if r.Database != "" && !named {
			problems.add(path+".database", "no database is named %q", r.Database)
		}
		checkTemplate(r.Destination, path+".destination", problems)
		for name := range r.Headers {
			if name == "" {
				problems.add(path+".headers", "a header without a name")
			}
		}
	}
}

// checkTemplate says what is wrong with a destination that package wire refuses,
// all of it at once and without quoting the constant text, which may hold a token.
func checkTemplate(template, path string, problems *Problems) {
	if _, err := wire.ParseTemplate(template); template == "" || err == nil {
		return
	}
	wrong := false
	for rest := template; ; {
		_, after, found := strings.Cut(rest, "{")
		if !found {
			if !wrong {
				problems.add(path, "} without {")
			}
			return
		}
		token, tail, closed := strings.Cut(after, "}")
		if !closed {
			problems.add(path, "{ without }")
			return
		}
		header, isHeader := strings.CutPrefix(token, "header.")
		switch {
		case isHeader && header != "":
		case slices.Contains([]string{"topic", "key", "type", "database"}, token):
		default:
			wrong = true
			problems.add(path, "unknown token {%s} (there are {topic}, {key}, {type}, {database} and {header.NAME})", printable(token))
		}
		rest = tail
	}
}

// Takes reports whether the route takes the events of a topic in a database. In
// a pattern * matches any text.
func (r Route) Takes(topic, database string) bool {
	return (r.Database == "" || r.Database == database) && matches(r.Topic, topic)
}

// matches goes through the pattern's texts between the stars: the first is at
// the topic's head, the last at its end, the others as early as they can be.
func matches(pattern, topic string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == topic
	}
	topic, ok := strings.CutPrefix(topic, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, part := range parts[1:last] {
		at := strings.Index(topic, part)
		if at < 0 {
			return false
		}
		topic = topic[at+len(part):]
	}
	return strings.HasSuffix(topic, parts[last])
}
