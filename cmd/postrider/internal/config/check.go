package config

import (
	"fmt"
	"maps"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Known is what this build of the command has.
type Known struct {
	// Databases and Brokers are the URL schemes that it has adapters for.
	Databases, Brokers []string
	// Metrics are the names of the metrics with the labels of each.
	Metrics map[string][]string
	// Names checks the names of a database's tables against what this kind of
	// database allows. May be nil.
	Names func(scheme string, d Database) error
	// DatabaseURL checks a database's URL beyond its scheme, and its error shows
	// nothing of it. May be nil.
	DatabaseURL func(scheme, text string) error
}

// namePattern is what names may be made of: they stand in metrics, in log lines
// and in the source of events.
var namePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// check finds what the decoder cannot see: names that do not fit each other,
// URLs, and numbers that do not go together.
func (c *Config) check(known Known, problems *Problems) {
	c.checkDatabases(known, problems)
	c.checkBrokers(known, problems)
	c.completeRoutes(problems)
	c.checkRoutes(problems)
	c.checkRelay(problems)
	c.checkAdmin(problems)
	c.checkMetrics(known, problems)
}

func (c *Config) checkDatabases(known Known, problems *Problems) {
	seen := map[string]bool{}
	for i := range c.Databases {
		d, path := &c.Databases[i], index("databases", i)
		checkName(d.Name, path, seen, problems)
		scheme := checkURL(d.URL, d.URLFile, "url", path, known.Databases, known.DatabaseURL, problems)
		if d.DirectURL != "" || d.DirectURLFile != "" {
			direct := checkURL(d.DirectURL, d.DirectURLFile, "direct_url", path, known.Databases, known.DatabaseURL, problems)
			if scheme != "" && direct != "" && scheme != direct {
				problems.add(path+".direct_url", "another kind of database than url")
			}
			if scheme == "sqlite" {
				problems.add(path+".direct_url", "SQLite has no pooler to go past")
			}
		}
		if scheme == "sqlite" && d.Doorbell == "on" {
			problems.add(path+".doorbell", "on is for PostgreSQL; SQLite wakes relays of the same process by itself")
		}
		if d.Claim != "competing" {
			onlyCompeting(d.WhenFull == "wait", path+".when_full", problems)
			onlyCompeting(d.OnError == "continue", path+".on_error", problems)
		}
		positive(d.PollInterval, path+".poll_interval", problems)
		positive(d.SweepInterval, path+".sweep_interval", problems)
		if d.Prefix == "" {
			problems.add(path+".prefix", "empty")
		}
		if scheme != "" && known.Names != nil {
			if err := known.Names(scheme, *d); err != nil {
				problems.add(path, "%v", err)
			}
		}
	}
}

func onlyCompeting(set bool, path string, problems *Problems) {
	if set {
		problems.add(path, "has an effect only with claim: competing")
	}
}

func (c *Config) checkBrokers(known Known, problems *Problems) {
	seen := map[string]bool{}
	for i := range c.Brokers {
		b, path := &c.Brokers[i], index("brokers", i)
		checkName(b.Name, path, seen, problems)
		scheme := checkURL(b.URL, b.URLFile, "url", path, known.Brokers, nil, problems)
		if local := scheme == "file" || scheme == "stdout"; local && b.TLS != (TLS{}) {
			problems.add(path+".tls", "%s: has no connection to protect", scheme)
		}
		if (b.TLS.CertFile == "") != (b.TLS.KeyFile == "") {
			problems.add(path+".tls", "cert_file and key_file go together")
		}
		for _, f := range []struct{ name, file string }{
			{"ca_file", b.TLS.CAFile}, {"cert_file", b.TLS.CertFile}, {"key_file", b.TLS.KeyFile},
		} {
			checkFile(f.file, path+".tls."+f.name, problems)
		}
	}
}

func checkName(name, path string, seen map[string]bool, problems *Problems) {
	switch {
	case !namePattern.MatchString(name):
		problems.add(path+".name", "must be letters, digits, dots, hyphens and underscores")
	case seen[name]:
		problems.add(path+".name", "%q is used twice", name)
	}
	seen[name] = true
}

// checkURL checks a URL or the file that holds it, and returns its scheme, or
// "" where there is a problem.
func checkURL(url, file, field, path string, schemes []string, further func(scheme, text string) error, problems *Problems) string {
	path += "." + field
	switch {
	case url != "" && file != "":
		problems.add(path, "given twice, as %s and as %s_file", field, field)
		return ""
	case url == "" && file == "":
		problems.add(path, "missing (or give %s_file)", field)
		return ""
	case file != "":
		path += "_file"
		text, err := readSecret(file)
		if err != nil {
			problems.add(path, "%s", reason(err))
			return ""
		}
		url = text
	}
	scheme, err := SchemeOf(url)
	switch {
	case err != nil:
		problems.add(path, "%v", err)
	case slices.Contains(schemes, scheme):
		if further == nil {
			return scheme
		}
		if err = further(scheme, url); err == nil {
			return scheme
		}
		problems.add(path, "%v", err)
	default:
		problems.add(path, "no adapter for %s: in this build (it has %s)", printable(scheme), strings.Join(schemes, ", "))
	}
	return ""
}

func (c *Config) checkRelay(problems *Problems) {
	r := c.Relay
	positive(r.PublishTimeout, "relay.publish_timeout", problems)
	positive(r.DrainTimeout, "relay.drain_timeout", problems)
	if r.Lease < 2*r.PublishTimeout {
		problems.add("relay.lease", "%v is shorter than twice relay.publish_timeout (%v)", r.Lease, r.PublishTimeout)
	}
	if r.Memory < 1<<20 {
		problems.add("relay.memory", "less than 1MiB")
	}
}

func positive(d Duration, path string, problems *Problems) {
	if d <= 0 {
		problems.add(path, "must be above 0s")
	}
}

func (c *Config) checkAdmin(problems *Problems) {
	a := c.Admin
	checkFile(a.TokenFile, "admin.token_file", problems)
	if a.BasePath != "" && (!strings.HasPrefix(a.BasePath, "/") || strings.HasSuffix(a.BasePath, "/")) {
		problems.add("admin.base_path", "must begin with a slash and not end with one")
	}
	positive(a.StallAfter, "admin.stall_after", problems)
	if a.Listen == "off" {
		return
	}
	host, _, err := net.SplitHostPort(a.Listen)
	if err != nil {
		problems.add("admin.listen", "must be HOST:PORT or off")
		return
	}
	if IsLoopback(host) {
		return
	}
	if a.TokenFile == "" {
		problems.add("admin.token_file", "missing: admin.listen is not a loopback address, so others could reach it")
	}
	if !a.InsecureHTTP {
		problems.add("admin.insecure_http", "must be true: admin.listen is not a loopback address, and the token travels unencrypted")
	}
}

// IsLoopback reports whether only this machine reaches the host. A name other
// than localhost is not trusted to stay one.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func checkFile(name, path string, problems *Problems) {
	if name == "" {
		return
	}
	if f, err := os.Open(name); err != nil {
		problems.add(path, "%s", reason(err))
	} else {
		f.Close()
	}
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

func (c *Config) checkMetrics(known Known, problems *Problems) {
	if c.Metrics.MaxLabelValues == 0 {
		problems.add("metrics.max_label_values", "must be above 0")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Metrics.Aliases)) {
		alias := c.Metrics.Aliases[name]
		path := "metrics.aliases." + printable(name)
		if !metricName.MatchString(name) {
			problems.add(path, "not a name of a metric")
		}
		if _, taken := known.Metrics[name]; taken {
			problems.add(path, "is one of our own metrics")
		}
		labels, ok := known.Metrics[alias.Name]
		if !ok {
			problems.add(path+".name", "%s is none of our metrics", printable(fmt.Sprintf("%q", alias.Name)))
			continue
		}
		for _, theirs := range slices.Sorted(maps.Keys(alias.Labels)) {
			ours := alias.Labels[theirs]
			if !labelName.MatchString(theirs) {
				problems.add(path+".labels."+printable(theirs), "not a name of a label")
			}
			if !slices.Contains(labels, ours) {
				problems.add(path+".labels."+printable(theirs), "%s has no such label (it has %s)", alias.Name, strings.Join(labels, ", "))
			}
		}
	}
}
