// Workflows runs the commands of a workflow in .github/workflows on this machine, job by job, as its runner would. What
// a step takes from elsewhere (uses) is left out: a checkout and Go are here.
//
//	go run ./test/workflows [-job NAME] [-matrix VALUE] [-set EXPRESSION=VALUE]... FILE
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

type workflow struct {
	Name string         `yaml:"name"`
	Jobs map[string]job `yaml:"jobs"`
}

type job struct {
	Strategy struct {
		Matrix map[string][]string `yaml:"matrix"`
	} `yaml:"strategy"`
	Steps []step `yaml:"steps"`
}

type step struct {
	Name string            `yaml:"name"`
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	Env  map[string]string `yaml:"env"`
}

// read reads a workflow.
func read(path string) (*workflow, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	w := &workflow{}
	if err := yaml.Unmarshal(b, w); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// variants returns the expressions of each job that a matrix makes of one: none, or one variable.
func (j job) variants() ([]map[string]string, error) {
	if len(j.Strategy.Matrix) == 0 {
		return []map[string]string{{}}, nil
	}
	if len(j.Strategy.Matrix) > 1 {
		return nil, fmt.Errorf("a matrix of %d variables, want one", len(j.Strategy.Matrix))
	}
	var list []map[string]string
	for name, values := range j.Strategy.Matrix {
		for _, v := range values {
			list = append(list, map[string]string{"matrix." + name: v})
		}
	}
	return list, nil
}

var expression = regexp.MustCompile(`\$\{\{\s*([^}]*?)\s*\}\}`)

// fill replaces expressions.
func fill(text string, values map[string]string) (string, error) {
	var err error
	return expression.ReplaceAllStringFunc(text, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		v, ok := values[name]
		if !ok {
			err = fmt.Errorf("no value of %s: give -set %[1]s=VALUE", name)
		}
		return v
	}), err
}

// commands returns what a job runs without the step of one name: the texts, and the environment of each.
func (j job) commands(values map[string]string, without string) (list []step, err error) {
	for _, s := range j.Steps {
		if s.Run == "" || without != "" && s.Name == without {
			continue
		}
		one := step{Name: s.Name, Env: map[string]string{}}
		if one.Run, err = fill(s.Run, values); err != nil {
			return nil, fmt.Errorf("step %q: %w", s.Name, err)
		}
		for k, v := range s.Env {
			if one.Env[k], err = fill(v, values); err != nil {
				return nil, fmt.Errorf("step %q: %w", s.Name, err)
			}
		}
		list = append(list, one)
	}
	return list, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "workflows:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("workflows", flag.ContinueOnError)
	only := f.String("job", "", "run this job alone")
	matrix := f.String("matrix", "", "run the variant with this value alone")
	left := f.String("without", "", "leave out the step of this name")
	set := map[string]string{}
	f.Func("set", "`EXPRESSION=VALUE`, as github.token=x", func(s string) error {
		k, v, _ := strings.Cut(s, "=")
		set[k] = v
		return nil
	})
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return errors.New("want one file")
	}
	w, err := read(f.Arg(0))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
		if *only != "" && name != *only {
			continue
		}
		variants, err := w.Jobs[name].variants()
		if err != nil {
			return err
		}
		for _, values := range variants {
			if *matrix != "" && !slices.Contains(slices.Collect(maps.Values(values)), *matrix) {
				continue
			}
			label := strings.Join(append([]string{w.Name, name}, slices.Collect(maps.Values(values))...), ": ")
			maps.Copy(values, set)
			steps, err := w.Jobs[name].commands(values, *left)
			if err != nil {
				return err
			}
			for _, s := range steps {
				if err := s.do(ctx, label, stdout); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// do runs a step.
func (s *step) do(ctx context.Context, label string, stdout io.Writer) error {
	begin := time.Now()
	fmt.Fprintf(stdout, "workflows: %s: %s\n", label, s.Name)
	c := exec.CommandContext(ctx, "bash", "-eo", "pipefail", "-c", s.Run)
	c.Stdout, c.Stderr, c.Env = stdout, os.Stderr, append(os.Environ(), "CI=true")
	for k, v := range s.Env {
		c.Env = append(c.Env, k+"="+v)
	}
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %s: %w", label, s.Name, err)
	}
	fmt.Fprintf(stdout, "workflows: %s: %s: done in %.0f s\n", label, s.Name, time.Since(begin).Seconds())
	return nil
}
