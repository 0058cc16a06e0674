package command

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/layer"
	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// invocation is one run of the program.
type invocation struct {
	path           string // of the program, as it was started
	args           []string
	stdout, stderr io.Writer
	code           int     // exit status
	test           options // of write, read, send and atomic
	flags          *pflag.FlagSet
}

// commandNames are the commands that are no tests of perftest.
var commandNames = []string{"stream", "message", "compare", "report", "doctor", "selftest", "serve", "mesh",
	"completion, man and version"}

func init() { cobra.EnableCommandSorting = false }

var testVerbs = []wire.Verb{wire.Write, wire.Read, wire.Send, wire.Atomic}

// execute runs the command that the arguments name. An error of cobra is one of usage: commands print theirs.
func (v *invocation) execute(ctx context.Context) int {
	root := v.root()
	root.SetArgs(v.args)
	c, err := root.ExecuteContextC(ctx)
	if err != nil {
		say(v.stderr, err)
		fmt.Fprintf(v.stderr, "%s --help shows the usage\n", c.CommandPath())
		return exitUsage
	}
	return v.code
}

// root returns the program's commands. The flags of tests may also come before the verb, as in rdmaperf -d mlx5_0 read
// bw.
func (v *invocation) root() *cobra.Command {
	v.flags = flagSet(&v.test)
	root := &cobra.Command{Use: "rdmaperf", Long: rootUsage, Short: "bandwidth and latency of RDMA between two hosts",
		TraverseChildren: true, SilenceErrors: true, SilenceUsage: true}
	root.SetOut(v.stdout)
	root.SetErr(v.stderr)
	root.SetGlobalNormalizationFunc(normal)
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return unknown(err, c.Flags()) })
	root.SetHelpFunc(func(c *cobra.Command, _ []string) { fmt.Fprint(v.stdout, v.help(c)) })
	v.asTest(root)
	for _, verb := range testVerbs {
		c := &cobra.Command{Use: verb.String() + " {bw|lat} [options] [SERVER]", Long: verbUsage(verb),
			Short: "bandwidth and latency of " + verb.String(), ValidArgs: []string{"bw", "lat"}}
		v.asTest(c, verb.String())
		root.AddCommand(c)
	}
	for _, c := range []*cobra.Command{v.layer(layer.Stream), v.layer(layer.Message), v.compare(), v.report(),
		v.doctor(), v.selftest(), v.serve(), v.mesh(), v.man(), v.version()} {
		c.Flags().SortFlags = false
		c.Flags().BoolP("version", "V", false, "print the version")
		c.Flags().BoolP("help", "h", false, "print this help")
		root.AddCommand(c)
	}
	root.Flags().SetNormalizeFunc(abbreviated)
	for _, c := range root.Commands()[:len(testVerbs)] {
		c.Flags().SetNormalizeFunc(abbreviated)
	}
	v.withVersion(root)
	for _, c := range root.Commands() {
		v.withVersion(c)
	}
	root.InitDefaultCompletionCmd()
	onlyShells(root)
	return root
}

// version returns rdmaperf version, which is rdmaperf --version.
func (v *invocation) version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "version and commit of rdmaperf", Args: cobra.NoArgs,
		Long: "rdmaperf version prints the version and the commit of rdmaperf.\n\n{flags}\nExit status: 0 success, " +
			"2 wrong usage.\n",
		Run: func(*cobra.Command, []string) { fmt.Fprintln(v.stdout, programAndCommit()) }}
}

// onlyShells refuses shells that there is no completion for. cobra prints help then, with success.
func onlyShells(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = func(c *cobra.Command, words []string) error {
			if len(words) == 0 {
				return nil
			}
			var shells []string
			for _, s := range c.Commands() {
				shells = append(shells, s.Name())
			}
			return fmt.Errorf("no completion for %.100q; shells: %s", words[0], strings.Join(shells, ", "))
		}
		c.Run = func(c *cobra.Command, _ []string) { _ = c.Help() }
	}
}

// withVersion makes a command print the version where that is asked for, whatever else is.
func (v *invocation) withVersion(c *cobra.Command) {
	check, run := c.Args, c.Run
	asked := func(c *cobra.Command) bool { return c.Flags().Changed("version") }
	c.Args = func(c *cobra.Command, words []string) error {
		if asked(c) {
			return nil
		}
		if c.HasParent() && c.Flags().Lookup("version") != v.flags.Lookup("version") && c.Root().Flags().NFlag() > 0 {
			return fmt.Errorf("give the options after %s", c.Name())
		}
		return check(c, words)
	}
	c.Run = func(c *cobra.Command, words []string) {
		if asked(c) {
			fmt.Fprintln(v.stdout, programAndCommit())
			return
		}
		run(c, words)
	}
}

// asTest makes a command run the test that its words and its arguments name.
func (v *invocation) asTest(c *cobra.Command, words ...string) {
	c.Flags().SortFlags = false
	c.Flags().AddFlagSet(v.flags)
	for _, s := range v.test.table {
		for _, row := range s.flags {
			if row.among != "" {
				c.RegisterFlagCompletionFunc(row.name(), cobra.FixedCompletions(strings.Fields(row.among),
					cobra.ShellCompDirectiveNoFileComp))
			}
		}
	}
	c.Args = func(_ *cobra.Command, args []string) error {
		if perftestWords(v.path) != nil {
			o, err := parsePerftest(v.args)
			if err == nil {
				v.test = *o
			}
			return err
		}
		err := v.test.finish(v.flags, slices.Concat(words, args))
		return suggest(err, c, slices.Concat(words, args))
	}
	c.Run = func(c *cobra.Command, _ []string) { v.code = v.runTest(c.Context()) }
}
