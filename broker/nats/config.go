package nats

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is how to reach a server and what to expect of it. The zero value of
// each field but URL is a documented default.
type Config struct {
	// URL is nats://[user:password@ or token@]host[:port][,host2[:port]…], or
	// tls://… to require TLS. Servers of the same cluster; others of it are
	// learned from them.
	URL string
	// URLFile holds the URL instead. Its user and password are read again for
	// each new connection; its hosts only when the client starts afresh.
	URLFile string
	// TLS is needed for a private authority or a client certificate.
	TLS TLS
	// CredsFile is a .creds file (JWT and seed), NkeyFile a seed, TokenFile a
	// token. At most one; each is read again for each new connection.
	CredsFile, NkeyFile, TokenFile string
	// Name is shown in the server's list of connections. Default "postrider".
	Name string
	// InboxPrefix is where answers are sent, for accounts whose users may
	// subscribe to a part only. Default "_INBOX".
	InboxPrefix string
	// Domain is the JetStream domain that streams are looked up and made in;
	// publishing needs none. Default "": the server's own.
	Domain string
	// MaxPending is how many events may wait for their acks, over all calls. A
	// stream of a newer server drops what exceeds its max_buffered_msgs
	// (10,000). Default 4,000.
	MaxPending int
	// ConnectTimeout bounds the dial of one server and its greeting. Default 2s.
	ConnectTimeout time.Duration
	// PingInterval is after what silence the server is pinged; after two pings
	// without an answer the connection counts as lost. Default 5s.
	PingInterval time.Duration
	// CreateStream makes missing streams. One that exists is never altered.
	CreateStream bool
	// Stream is the stream to make. Without Subjects there is one stream for
	// each first token of a subject: for "orders.created" the stream "orders"
	// with the subjects "orders" and "orders.>".
	Stream Stream
	// RetryHorizon is how long after its first send an event may be sent again
	// in normal trouble (a timeout, a relay killed); Check compares it with the
	// streams' duplicate windows. Default 1m.
	RetryHorizon time.Duration
}

// Stream is what CreateStream makes. Streams are stored in files, and refuse new
// messages rather than discard old ones.
type Stream struct {
	// Name is the stream's name. Default: the first token of the first subject.
	Name string
	// Subjects are those the stream takes. Default: see Config.Stream.
	Subjects []string
	// Replicas is the number of copies. Default 1.
	Replicas int
	// DuplicateWindow is for how long the server knows dedup ids. Default 2m.
	DuplicateWindow time.Duration
	// MaxAge is after what time messages are removed. Default 0: never.
	MaxAge time.Duration
}

// TLS names PEM files. They are read again for each new connection.
type TLS struct {
	// CAFile is the authority that signed the server's certificate. Default:
	// those of the system.
	CAFile string
	// CertFile and KeyFile are the client's certificate. Default: none.
	CertFile, KeyFile string
}

func (c Config) withDefaults() Config {
	def(&c.Name, "postrider")
	def(&c.InboxPrefix, "_INBOX")
	def(&c.MaxPending, 4000)
	def(&c.ConnectTimeout, 2*time.Second)
	def(&c.PingInterval, 5*time.Second)
	def(&c.RetryHorizon, time.Minute)
	def(&c.Stream.Replicas, 1)
	def(&c.Stream.DuplicateWindow, 2*time.Minute)
	if c.Stream.Name == "" && len(c.Stream.Subjects) > 0 {
		c.Stream.Name, _, _ = strings.Cut(c.Stream.Subjects[0], ".")
	}
	return c
}

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c Config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("nats broker: "+format, args...)) }
	switch {
	case c.URL == "" && c.URLFile == "":
		bad("url: missing")
	case c.URL != "" && c.URLFile != "":
		bad("url and url_file: only one of them")
	case c.URL != "":
		if _, err := parseURL(c.URL); err != nil {
			errs = append(errs, fmt.Errorf("nats broker: %w", err))
		}
	}
	secrets := 0
	for _, f := range []string{c.CredsFile, c.NkeyFile, c.TokenFile} {
		if f != "" {
			secrets++
		}
	}
	if secrets > 1 {
		bad("creds_file, nkey_file and token_file: only one of them")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls: cert_file and key_file need each other")
	}
	if c.MaxPending < 0 || c.ConnectTimeout < 0 || c.PingInterval < 0 || c.RetryHorizon < 0 ||
		c.Stream.Replicas < 0 || c.Stream.DuplicateWindow < 0 || c.Stream.MaxAge < 0 {
		bad("negative number or duration")
	}
	if strings.ContainsAny(c.InboxPrefix, " \t\r\n*>") || strings.HasSuffix(c.InboxPrefix, ".") {
		bad("inbox_prefix %q: not a subject", c.InboxPrefix)
	}
	if strings.ContainsAny(c.Stream.Name, " \t\r\n.*>/\\") {
		bad("stream %q: not a stream's name", c.Stream.Name)
	}
	return errors.Join(errs...)
}
