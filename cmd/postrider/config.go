package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/postrider/postrider/cmd/postrider/internal/config"
)

func (c *command) config() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Check, print or describe the configuration"}
	cmd.AddCommand(&cobra.Command{
		Use:   "check",
		Short: "Check the configuration as relay would, without connecting to anything",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			r, err := c.assemble(cfg, c.logger(cfg.Log))
			if err != nil {
				return err
			}
			r.close()
			fmt.Fprintf(c.stdout, "fine: %d databases, %d brokers, %d routes\n",
				len(cfg.Databases), len(cfg.Brokers), len(cfg.Routes))
			return nil
		},
	}, &cobra.Command{
		Use:   "print",
		Short: "Print the configuration with every default and without secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := c.load()
			if err != nil {
				return err
			}
			text, err := cfg.Redacted().YAML()
			if err != nil {
				return err
			}
			_, err = c.stdout.Write([]byte(c.secrets.ScrubValues(string(text))))
			return err
		},
	}, &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of postrider.yaml, for editors",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := c.stdout.Write(config.Schema())
			return err
		},
	})
	return cmd
}
