package command

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pureverbs/pureverbs/cmd/perf/internal/wire"
)

// names returns the flags by each of their long names.
var names = sync.OnceValue(func() map[string]string {
	m := map[string]string{}
	for _, s := range table(&options{}) {
		for _, row := range s.flags {
			_, name, others := row.words()
			for _, o := range append(others, name) {
				m[o] = name
			}
		}
	}
	return m
})

// normal returns a flag's name as rdmaperf has it: perftest's may be written with - or _.
func normal(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	name = strings.ReplaceAll(name, "_", "-")
	return pflag.NormalizedName(cmp.Or(names()[name], name))
}

// abbreviated is normal for the flags of tests: as in perftest, a beginning that only one name has is enough.
func abbreviated(f *pflag.FlagSet, name string) pflag.NormalizedName {
	n := normal(f, name)
	if _, whole := names()[string(n)]; whole {
		return n
	}
	if list := beginning(string(n)); len(list) == 1 {
		return pflag.NormalizedName(list[0])
	}
	return n
}

// beginning lists the flags with a name that begins so.
func beginning(with string) (list []string) {
	for name, flag := range names() {
		if with != "" && strings.HasPrefix(name, with) && !slices.Contains(list, flag) {
			list = append(list, flag)
		}
	}
	slices.Sort(list)
	return list
}

// unknown explains a flag that is not there.
func unknown(err error, f *pflag.FlagSet) error {
	var none *pflag.NotExistError
	if !errors.As(err, &none) {
		return err
	}
	name := string(f.GetNormalizeFunc()(f, none.GetSpecifiedName()))
	said := "--" + none.GetSpecifiedName()
	if none.GetSpecifiedShortnames() != "" {
		name = ""
	}
	if list := beginning(name); f.Lookup("connection") != nil && len(list) > 1 {
		return fmt.Errorf("%s: is the beginning of --%s", said, strings.Join(list, " and --"))
	}
	if near := similar(name, f); name != "" && len(near) > 0 {
		return fmt.Errorf("%w; did you mean --%s?", err, strings.Join(near, " or --"))
	}
	return err
}

// similar lists the flags that a mistyped name may mean.
func similar(name string, f *pflag.FlagSet) []string {
	names := cobra.Command{SuggestionsMinimumDistance: distance(name)} // cobra compares names of commands
	f.VisitAll(func(fl *pflag.Flag) {
		if !fl.Hidden {
			names.AddCommand(&cobra.Command{Use: fl.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	return names.SuggestionsFor(name)
}

// distance returns how many letters of a mistyped name may be wrong.
func distance(name string) int { return min(2, len(name)/4+1) }

// suggest adds the commands that a mistyped one may mean to an error.
func suggest(err error, root *cobra.Command, words []string) error {
	if err == nil || len(words) == 0 {
		return err
	}
	if _, known := wire.ParseVerb(words[0]); known == nil {
		return err
	}
	root.SuggestionsMinimumDistance = distance(words[0])
	if near := root.SuggestionsFor(words[0]); len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}
