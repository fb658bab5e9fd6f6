// Package config is the configuration of the postrider command: its one file,
// the environment and the flags, read in layers and checked as a whole.
//
// One struct, [Config], says everything: the decoder, the checks of unknown
// fields and wrong types, the defaults, the redacted print and the JSON Schema
// all walk it by reflection, so that none of them can fall behind the others.
// The tags of a field are:
//
//	yaml     its name
//	default  its value when nothing is said (text, decoded like any other)
//	enum     the allowed values, separated by commas
//	later    values that are known but not supported by this version, separated
//	         by commas; "*" is every value but the default
//	secret   "true": never printed; has a twin with _file behind its name
//	url      "true": printed without the password and the secret options in it
//	doc      one sentence for people and for the JSON Schema
//
// Every problem is found at once and carries its path. Values that came from a
// variable, and values of secret fields, are never quoted in a problem.
package config
