package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/v2"
)

// Sources are the layers of a configuration. A flag wins over the environment,
// the environment over the file.
type Sources struct {
	// File is the value of --config.
	File string
	// Database and Broker are the values of --database and --broker.
	Database, Broker string
	// Schema, Table and Prefix are flags for the names of the only database.
	Schema, Table, Prefix string
	// Env is the environment, as os.Environ has it.
	Env []string
	// Search are the files looked for when neither File nor POSTRIDER_CONFIG
	// names one. Default: searchPath.
	Search []string
}

// searchPath is where a configuration is looked for.
var searchPath = []string{"postrider.yaml", "/etc/postrider/postrider.yaml"}

// delimiter separates the steps of a path inside koanf. Names of headers and
// options may hold dots and slashes, no name can hold this one.
const delimiter = "\x00"

// Load reads all layers and checks them as a whole. The error is a *Problems,
// or says that the file cannot be read.
func Load(s Sources, known Known) (*Config, error) {
	lookup := lookupIn(s.Env)
	name, text, err := s.read(lookup)
	if err != nil {
		return nil, err
	}
	problems := &Problems{Source: name}
	layers := koanf.New(delimiter)
	if err := layers.Load(raw(text), yaml.Parser()); err != nil {
		problems.add("", "%s", yamlProblem(err))
		return nil, problems
	}
	environment := env.Provider(delimiter, env.Opt{
		Prefix:        "POSTRIDER_",
		TransformFunc: variable,
		EnvironFunc:   func() []string { return s.Env },
	})
	merge := koanf.WithMergeFunc(func(from, into map[string]any) error {
		mergeFields(from, into, "", problems)
		return nil
	})
	if err := layers.Load(environment, nil, merge); err != nil {
		return nil, err
	}
	tree := layers.Raw()
	expand(tree, "", lookup, problems)
	c := new(Config)
	decode(tree, reflect.ValueOf(c).Elem(), "", problems)
	c.overlay(s, lookup, problems)
	c.check(known, problems)
	if err := problems.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// read finds the file and returns its name and text. No file at all is an empty
// configuration: flags suffice.
func (s Sources) read(lookup func(string) (string, bool)) (name string, text []byte, err error) {
	named := s.File
	if named == "" {
		named, _ = lookup("POSTRIDER_CONFIG")
	}
	if named != "" {
		text, err = os.ReadFile(named)
		return named, text, err
	}
	search := s.Search
	if search == nil {
		search = searchPath
	}
	for _, name := range search {
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return name, text, err
	}
	return "", nil, nil
}

// raw is a koanf provider of text that has been read.
type raw []byte

func (r raw) ReadBytes() ([]byte, error)    { return r, nil }
func (r raw) Read() (map[string]any, error) { return nil, errors.ErrUnsupported }

// variable turns POSTRIDER_RELAY__LEASE into the path relay, lease. A variable
// without the double underscore is no path; some of them have a meaning of their
// own, and a cluster makes others (POSTRIDER_SERVICE_HOST).
func variable(name, value string) (string, any) {
	path := strings.TrimPrefix(name, "POSTRIDER_")
	if !strings.Contains(path, "__") {
		return "", nil
	}
	path = strings.ReplaceAll(strings.ToLower(path), "__", delimiter)
	return path, Soft{Text: value, From: name}
}

func lookupIn(environ []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, variable := range slices.Backward(environ) { // the last one counts, as in a shell
			if n, v, ok := strings.Cut(variable, "="); ok && n == name {
				return v, true
			}
		}
		return "", false
	}
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// yamlProblem is a parser's complaint without the piece of the file that it
// quotes: the piece may be a password.
func yamlProblem(err error) string {
	text := err.Error()
	if !strings.HasPrefix(text, "yaml: unmarshal errors") {
		text, _, _ = strings.Cut(text, "`")
		return strings.TrimPrefix(text, "yaml: ")
	}
	problem := "not a group of fields"
	if strings.Contains(text, "already defined") {
		problem = "a field stands there twice"
	}
	if line := yamlLine.FindString(text); line != "" {
		return line + ": " + problem
	}
	return problem
}
