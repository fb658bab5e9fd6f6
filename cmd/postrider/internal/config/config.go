package config

// Config is the whole configuration.
type Config struct {
	// Databases: the databases whose outboxes are relayed.
	Databases []Database `yaml:"databases" doc:"The databases whose outboxes are relayed."`
	// Brokers: the message brokers that events are sent to.
	Brokers []Broker `yaml:"brokers" doc:"The message brokers that events are sent to."`
	// Routes: which events go where.
	Routes []Route `yaml:"routes" doc:"Which events go where. The first route that matches wins."`
	// Relay: how a relay process works.
	Relay Relay `yaml:"relay" doc:"How a relay process works."`
	// Admin: the HTTP listener for health and metrics.
	Admin Admin `yaml:"admin" doc:"The HTTP listener for health and metrics."`
	// Metrics: names and bounds of the metrics.
	Metrics Metrics `yaml:"metrics" doc:"Names and bounds of the metrics."`
	// Log: the log.
	Log Log `yaml:"log" doc:"The log."`
}

// Database is one database with an outbox.
type Database struct {
	Name          string         `yaml:"name" default:"default" doc:"Unique name: in metrics, logs and the source of events."`
	URL           string         `yaml:"url" secret:"true" url:"true" doc:"postgres://user:password@host:port/database or sqlite:FILE."`
	URLFile       string         `yaml:"url_file" doc:"File that holds the URL, read again for each new connection."`
	DirectURL     string         `yaml:"direct_url" secret:"true" url:"true" doc:"URL past a pooler, for LISTEN."`
	DirectURLFile string         `yaml:"direct_url_file" doc:"File that holds direct_url, read again for each new connection."`
	Schema        string         `yaml:"schema" doc:"Schema of the tables. Default public in PostgreSQL, main in SQLite."`
	Table         string         `yaml:"table" doc:"Name of the outbox table. Default: the prefix."`
	Prefix        string         `yaml:"prefix" default:"outbox" doc:"Begins the names of all other tables: <prefix>_delivered, <prefix>_dead and so on."`
	Columns       map[string]any `yaml:"columns" later:"*" doc:"Mapping to the columns of an existing outbox table."`
	Where         string         `yaml:"where" later:"*" doc:"Extra filter on the rows of an existing table."`
	Read          string         `yaml:"read" default:"poll" enum:"poll,tail" later:"tail" doc:"How rows are noticed."`
	Claim         string         `yaml:"claim" default:"lanes" enum:"lanes,competing" doc:"How several relays share one outbox."`
	PollInterval  Duration       `yaml:"poll_interval" default:"500ms" doc:"The longest wait between two fetches of an idle relay."`
	SweepInterval Duration       `yaml:"sweep_interval" default:"2s" doc:"How often held keys and housekeeping are looked after when nothing else asks for it."`
	Batch         int            `yaml:"batch" default:"0" doc:"Events of one fetch; 0 is 4000, and 100 with competing claims."`
	WhenFull      string         `yaml:"when_full" default:"again" enum:"again,wait" doc:"Competing claims: after a full batch, claim again at once or wait for poll_interval."`
	OnError       string         `yaml:"on_error" default:"stop" enum:"stop,continue" doc:"Competing claims: what happens to the rest of a batch after a failure."`
	Doorbell      string         `yaml:"doorbell" default:"auto" enum:"auto,on,off" doc:"Wake-up by NOTIFY while the relay sleeps (PostgreSQL)."`
	Retention     Duration       `yaml:"retention" default:"24h" doc:"How long delivered events are kept; 0s keeps none."`
	History       string         `yaml:"history" default:"full" enum:"full,head" doc:"Keep delivered events whole, or without their payload."`
	DeadRetention Duration       `yaml:"dead_retention" default:"0s" doc:"How long dead letters are kept; 0s is for ever."`
	DiskBudget    Size           `yaml:"disk_budget" later:"*" doc:"Warn when outbox and history grow beyond this size."`
}

// Broker is one message broker.
type Broker struct {
	Name    string         `yaml:"name" default:"default" doc:"Unique name, used by routes."`
	URL     string         `yaml:"url" secret:"true" url:"true" doc:"nats://host:port, file:PATH or stdout:. Options may stand in its query."`
	URLFile string         `yaml:"url_file" doc:"File that holds the URL, read again for each new connection."`
	TLS     TLS            `yaml:"tls" doc:"Certificates for the connection."`
	Options map[string]any `yaml:"options" secret:"true" doc:"Options of this kind of broker."`
}

// TLS names the certificates of a connection. All are PEM files.
type TLS struct {
	CAFile   string `yaml:"ca_file" doc:"Certificates that the server's certificate must be signed by. Default: the system's."`
	CertFile string `yaml:"cert_file" doc:"The client's certificate."`
	KeyFile  string `yaml:"key_file" doc:"The client's private key."`
}

// Route sends matching events to a destination of a broker.
type Route struct {
	Topic       string            `yaml:"topic" default:"*" doc:"Pattern of topics; * matches any text, dots too."`
	Database    string            `yaml:"database" doc:"Only events of this database. Default: of every database."`
	Broker      string            `yaml:"broker" doc:"Name of the broker. Default: the only one, or the one named default."`
	Destination string            `yaml:"destination" doc:"Name at the broker: a template of {topic}, {key}, {type}, {database} and {header.NAME}. Default: the format's, {topic} but for debezium."`
	Format      string            `yaml:"format" default:"cloudevents" enum:"cloudevents,structured,raw,debezium,watermill" doc:"How the event is put on the wire."`
	Source      string            `yaml:"source" doc:"Source of the event, as CloudEvents has it. Default postrider/<database>."`
	Headers     map[string]string `yaml:"headers" doc:"Headers added to each message; the event's own win."`
	OnFailure   string            `yaml:"on_failure" enum:"block,dead_letter" doc:"When attempts run out or a failure is permanent. Default block for events with a key, dead_letter for others."`
	MaxAttempts int               `yaml:"max_attempts" default:"0" doc:"Counted attempts before on_failure; 0 is without end."`
	Resolve     string            `yaml:"resolve" later:"*" doc:"Query that makes the payload when the event is sent."`
}

// Relay is how a relay process works.
type Relay struct {
	Active         int      `yaml:"active" default:"0" doc:"How many relays work at once, the others stand by; 0 is all of them."`
	Lease          Duration `yaml:"lease" default:"10s" doc:"After this silence a relay is taken as dead. At least twice publish_timeout."`
	PublishTimeout Duration `yaml:"publish_timeout" default:"5s" doc:"The longest that one call to a broker may take."`
	DrainTimeout   Duration `yaml:"drain_timeout" default:"20s" doc:"How long a stopping relay waits for calls and settles on their way."`
	Memory         Size     `yaml:"memory" default:"64MiB" doc:"Bound of the events in memory."`
}

// Admin is the HTTP listener.
type Admin struct {
	Listen       string   `yaml:"listen" default:"127.0.0.1:9464" doc:"Address of the listener; off turns it off."`
	TokenFile    string   `yaml:"token_file" doc:"File that holds the bearer token which every request but the health checks must carry."`
	InsecureHTTP bool     `yaml:"insecure_http" default:"false" doc:"Allow plain HTTP on an address that is not loopback."`
	Actions      bool     `yaml:"actions" default:"false" later:"*" doc:"Allow actions on the web page."`
	Payloads     string   `yaml:"payloads" default:"hide" enum:"hide,show" later:"show" doc:"Show payloads on the web page."`
	BasePath     string   `yaml:"base_path" doc:"Path that all addresses of the listener begin with."`
	StallAfter   Duration `yaml:"stall_after" default:"60s" doc:"/progressz fails when something is due and nothing was settled for so long."`
}

// Metrics says how metrics are named and bounded.
type Metrics struct {
	Aliases        map[string]Alias `yaml:"aliases" doc:"Further names of metrics: theirs to ours."`
	MaxLabelValues int              `yaml:"max_label_values" default:"1000" doc:"Topics beyond this number are counted together as \"other\"."`
}

// Alias serves one of our metrics under another name too.
type Alias struct {
	Name   string            `yaml:"name" doc:"Our name of the metric."`
	Labels map[string]string `yaml:"labels" doc:"Their labels, each with our label that fills it."`
}

// Log is the log.
type Log struct {
	Level  string `yaml:"level" default:"info" enum:"debug,info,warn,error" doc:"The least severe lines that are written."`
	Format string `yaml:"format" default:"text" enum:"text,json" doc:"Form of a line."`
	Keys   string `yaml:"keys" default:"hash" enum:"hash,plain" doc:"Ordering keys in the log: their hash, or as they are."`
}

// DefaultListen is where the admin listener is when nothing is said.
func DefaultListen() string { return defaults[Admin]().Listen }
