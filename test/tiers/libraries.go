package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The packages' own tests, on the emulated device, with the libraries of other releases of rdma-core.

// onlyLibraries selects these tests.
const onlyLibraries = "libraries"

// debians are the Debian releases whose libraries scripts/debian-root unpacks.
var debians = []string{"bullseye", "trixie", "sid"}

// onLibraries lists the packages whose tests run with other releases' libraries, and their processor seconds with one
// of them. Those next to each other differ much.
var onLibraries = []struct {
	dir  string
	cost int
}{
	{"ibv", 9}, {"rdma", 23}, {"rdmacm/rsocket", 2}, {"test/random", 20}, {"mlx5dv", 3}, {"examples", 25},
	{"rdmacm", 7}, {"cmd/perf", 60}, {"test/posts", 37},
}

// shortCost bounds the processor seconds of a short run's cells. Those that cost more are for a full run.
const shortCost = 25

// cell is a package's tests with a release's libraries on a data path.
type cell struct{ dir, release, path string }

func (c cell) variant() string { return c.release + "-" + c.path }

func (c cell) String() string { return c.variant() + " " + c.dir }

// cells returns all cells. Neighbours differ in the package, and also in the release or in the path.
func cells() (all []cell) {
	paths := []string{"ops", "direct"}
	variants := len(debians) * len(paths)
	for round := range variants {
		for i, p := range onLibraries {
			v := (round + i) % variants
			all = append(all, cell{p.dir, debians[v/len(paths)], paths[v%len(paths)]})
		}
	}
	return all
}

// someCells returns the cells of a short run: those from number turn on that cost no more than most.
func someCells(turn uint64, most int) (some []cell) {
	all, cost := cells(), map[string]int{}
	for _, p := range onLibraries {
		cost[p.dir] = p.cost
	}
	all = slices.DeleteFunc(all, func(c cell) bool { return cost[c.dir] > most })
	for i := range all {
		c := all[(turn+uint64(i))%uint64(len(all))]
		if most -= cost[c.dir]; most < 0 {
			break
		}
		some = append(some, c)
	}
	return some
}

// turn returns a number that differs from commit to commit.
func (r *runner) turn(ctx context.Context) uint64 {
	c := r.command(ctx, "git", "rev-parse", "HEAD")
	c.Stdout = nil
	head, _ := c.Output() // without git always the same cells
	h := fnv.New64a()
	_, _ = h.Write(head)
	return h.Sum64()
}

// libraryCells returns the cells of this run, by package.
func (r *runner) libraryCells(ctx context.Context) map[string][]cell {
	list := cells()
	switch {
	case r.only == nativeVariant:
		list = nil
	case r.only == "" && os.Getenv(fullEnv) == "":
		list = someCells(r.turn(ctx), shortCost)
		fmt.Fprintf(r.note, "emu: this commit's cells of docs/testing.md's table: %v\n", list)
	}
	byDir := map[string][]cell{}
	for _, c := range list {
		byDir[c.dir] = append(byDir[c.dir], c)
	}
	return byDir
}

// onLibrary runs a cell. A full run has no more of it than a short one: the rows of a full run are for this machine's
// libraries.
func (r *runner) onLibrary(ctx context.Context, c cell, run, strict string) ([]Result, error) {
	env := []string{fullEnv + "=", "PUREVERBS_LIBRARIES=" + c.release}
	if c.variant() == "bullseye-ops" {
		env = append(env, "PUREVERBS_UNBOUND=1") // its libmlx5 writes behind the queue: ibv refuses to bind windows
	}
	return r.emulated(ctx, emulation{variant: c.variant(), path: c.path, strict: strict, env: env,
		below: []string{filepath.Join(r.root, "scripts/in-debian"), "-t", c.release}}, run, c.dir)
}

// The table in docs/testing.md is between these lines.
const (
	tableFile  = "docs/testing.md"
	tableBegin = "<!-- libraries: written by tiers -table -->"
	tableEnd   = "<!-- end of libraries -->"
)

// tableRow is a row of the table: a package and a release, what each data path's tests did, and which commit's.
type tableRow struct{ pkg, release, ops, direct, commit string }

var tableLine = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// updateTable returns page with the results of the cells that ran. Other cells stay as they are.
func updateTable(page string, results []Result, versions map[string]string, commit string) (string, error) {
	before, rest, ok := strings.Cut(page, tableBegin+"\n")
	old, after, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return "", fmt.Errorf("%s: no line %q and %q", tableFile, tableBegin, tableEnd)
	}
	was := map[[2]string]tableRow{}
	for _, m := range tableLine.FindAllStringSubmatch(old, -1) {
		was[[2]string{m[1], m[2]}] = tableRow{m[1], m[2], m[3], m[4], m[5]}
	}
	count := map[cell]*[4]int{}
	for _, r := range results {
		variant, pkg, ok := strings.Cut(r.Package, " ")
		if r.Tier != "emu" || !ok || strings.HasSuffix(r.Test, ")") { // "(run)" and its like are no test
			continue
		}
		release, path, ok := strings.Cut(variant, "-")
		if !ok {
			release, path = "bookworm", variant
		}
		c := cell{strings.TrimPrefix(strings.TrimPrefix(pkg, module), "/"), release, path}
		if count[c] == nil {
			count[c] = new([4]int)
		}
		count[c][r.Status]++
	}
	var b strings.Builder
	b.WriteString(before + tableBegin + "\n\n| package | rdma-core | ops | direct | commit |\n|---|---|---|---|---|\n")
	for _, p := range onLibraries {
		for _, release := range append([]string{"bookworm"}, debians...) {
			row, ok := was[[2]string{p.dir, versions[release]}]
			if !ok {
				row = tableRow{p.dir, versions[release], "not run", "not run", "-"}
			}
			for path, to := range map[string]*string{"ops": &row.ops, "direct": &row.direct} {
				if n := count[cell{p.dir, release, path}]; n != nil {
					*to = fmt.Sprintf("%d, %d, %d", n[Pass], n[Fail], n[Skip])
					row.commit = commit
				}
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", row.pkg, row.release, row.ops, row.direct, row.commit)
		}
	}
	b.WriteString("\n" + tableEnd + after)
	return b.String(), nil
}

var libraryVersion = regexp.MustCompile(`libibverbs\.so\.1\.\d+\.(\d+)\.`)

// writeTable updates the table of releases and packages. After an interrupt the table stays as it was: some numbers
// would be of what ran until then.
func (r *runner) writeTable(ctx context.Context, results []Result) error {
	if ctx.Err() != nil {
		return nil
	}
	versions := map[string]string{}
	for _, release := range append([]string{"bookworm"}, debians...) {
		root := filepath.Join(r.root, ".build/debian", release)
		if release == "bookworm" {
			root = "/"
		}
		files, err := filepath.Glob(filepath.Join(root, "usr/lib/*/libibverbs.so.1.*"))
		if err != nil {
			return err
		}
		version := "?"
		if i := slices.IndexFunc(files, libraryVersion.MatchString); i >= 0 {
			version = "v" + libraryVersion.FindStringSubmatch(files[i])[1]
		}
		versions[release] = version + " (" + release + ")"
	}
	c := r.command(ctx, "git", "rev-parse", "--short=8", "HEAD")
	c.Stdout = nil
	head, err := c.Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	file := filepath.Join(r.root, tableFile)
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	commit := strings.TrimSpace(string(head)) + ", " + time.Now().UTC().Format(time.DateOnly)
	text, err := updateTable(string(page), results, versions, commit)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644)
}
