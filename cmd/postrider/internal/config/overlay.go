package config

import "strings"

// overlay applies --database and --broker, or the variables POSTRIDER_DATABASE
// and POSTRIDER_BROKER. They suffice without a file. Beside a file, the database
// takes the place of the URL of the file's only one, with all its other
// settings; the broker is the one that is named default.
func overlay(c *Config, databaseFlag, database, brokerFlag, broker string,
	lookup func(string) (string, bool), problems *Problems,
) {
	if database == "" {
		databaseFlag = "POSTRIDER_DATABASE"
		database, _ = lookup(databaseFlag)
	}
	if broker == "" {
		brokerFlag = "POSTRIDER_BROKER"
		broker, _ = lookup(brokerFlag)
	}
	switch {
	case database == "":
	case len(c.Databases) > 1:
		problems.add("databases", "%s sets the URL of one database, and there are %d (set POSTRIDER_DATABASES__0__URL and so on)",
			databaseFlag, len(c.Databases))
	default:
		if len(c.Databases) == 0 {
			c.Databases = []Database{defaults[Database]()}
		}
		d := &c.Databases[0]
		d.URL, d.URLFile = urlOrFile(database)
		d.DirectURL, d.DirectURLFile = "", ""
	}
	if broker != "" {
		b := defaults[Broker]()
		b.URL, b.URLFile = urlOrFile(broker)
		c.putBroker(b)
	}
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
