// Release writes the files of a release of this repository into dist/, twice, in different folders and with different
// build caches, and fails if the two differ. It sets no tag, and changes nothing but dist/.
//
//	release [-once] VERSION      in the root of a checkout
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/tools/release/plan"
)

func main() {
	once := flag.Bool("once", false, "build once, and compare nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Args(), *once)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, once bool) error {
	if len(args) != 1 || args[0] == "" {
		return errors.New("no version: make release VERSION=v0.1.0")
	}
	source, err := plan.Read(".", args[0], os.ReadFile)
	if err != nil {
		return err
	}
	if err := source.Refuse(); err != nil {
		return fmt.Errorf("no release:\n%w", err)
	}
	work, err := os.MkdirTemp("", "pureverbs-release-")
	if err != nil {
		return err
	}
	defer func() { _ = removeAll(work) }()
	first, err := build(ctx, source, filepath.Join(work, "a"), os.Getenv("GOCACHE"))
	if err != nil {
		return err
	}
	if !once {
		// The other folder has a name of another length, and no result of the first build.
		dir := filepath.Join(work, "another-folder")
		second, err := build(ctx, source, dir, filepath.Join(work, "cache"))
		if err != nil {
			return err
		}
		if err := compare(first, second); err != nil {
			return err
		}
	}
	if err := os.RemoveAll("dist"); err != nil {
		return err
	}
	if err := os.CopyFS("dist", os.DirFS(first)); err != nil {
		return err
	}
	return list("dist")
}

// removeAll also removes folders that the go command made read-only.
func removeAll(dir string) error {
	_ = exec.Command("chmod", "-R", "u+w", dir).Run()
	return os.RemoveAll(dir)
}

// job is one build of a release.
type job struct {
	plan.Source
	ctx  context.Context
	src  string // the checkout
	work string // what is built
	dist string // the files
	env  []string
	time time.Time // of the commit

	linked    []plan.Linked
	binaries  []binary
	documents []file // of each archive: licences
	pages     map[string][]file
}

// binary is a program that was built.
type binary struct {
	plan.Build
	arch, path string
	modules    []string // path@version of what it links
}

// build builds a release in a folder that it makes, and returns the folder with the files.
func build(ctx context.Context, s plan.Source, dir, cache string) (string, error) {
	j := &job{Source: s, ctx: ctx, src: filepath.Join(dir, "src"), work: filepath.Join(dir, "work"),
		dist: filepath.Join(dir, "dist"), pages: map[string][]file{}}
	j.env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=", "GOAMD64=v1",
		"GOARM64=v8.0", "LC_ALL=C", "TZ=UTC")
	if cache != "" {
		j.env = append(j.env, "GOCACHE="+cache)
	}
	for _, d := range []string{j.src, j.work, j.dist} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", err
		}
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"clone", j.clone},
		{"build", j.programs},
		{"notices", j.notices},
		{"archives", j.archives},
		{"packages", j.packages},
		{"image", j.image},
		{"pack for adapters", j.pack},
		{"SBOM", j.bom},
		{"sums", j.sums},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			return "", fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(os.Stderr, "release: %s: %.1f s\n", step.name, time.Since(begin).Seconds())
	}
	return j.dist, nil
}

// clone makes a checkout of the commit, in which the commit has the version as a tag: so the go command stamps the
// programs with it, as go install does.
func (j *job) clone() error {
	if err := j.run(".", "git", "clone", "-q", "--no-checkout", ".", j.src); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"checkout", "-q", "--detach", j.Commit},
		{"-c", "user.name=release", "-c", "user.email=", "tag", "-f", j.Version},
	} {
		if err := j.run(j.src, "git", args...); err != nil {
			return err
		}
	}
	out, err := j.output(j.src, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		return err
	}
	j.time = time.Unix(seconds, 0).UTC()
	j.env = append(j.env, fmt.Sprint("SOURCE_DATE_EPOCH=", seconds))
	return nil
}

// programs builds all programs.
func (j *job) programs() error {
	for _, arch := range plan.Architectures {
		for _, b := range plan.Builds {
			p := filepath.Join(j.work, "bin", b.Name(j.Version, arch), b.Program)
			args := append(b.Flags(), "-o", p, "./"+b.Package)
			if err := j.run(j.src, "env", append([]string{"GOARCH=" + arch, "go"}, args...)...); err != nil {
				return err
			}
			j.binaries = append(j.binaries, binary{Build: b, arch: arch, path: p})
		}
	}
	return nil
}

// pack makes the pack for hosts with an adapter.
func (j *job) pack() error {
	for _, arch := range plan.Architectures {
		dir := filepath.Join(j.work, "pack-"+arch)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := j.run(j.src, "env", "GOARCH="+arch, "scripts/hw-pack", dir); err != nil {
			return err
		}
		made := filepath.Join(dir, "pureverbs-hw-"+arch+".tar.gz")
		if err := os.Rename(made, filepath.Join(j.dist, plan.PackName(j.Version, arch))); err != nil {
			return err
		}
	}
	return nil
}

// sums writes the notes and the sums of all files, and fails if the files are not those of the plan.
func (j *job) sums() error {
	if err := os.WriteFile(filepath.Join(j.dist, "NOTES.md"), []byte(plan.Notes(j.Source)), 0o644); err != nil {
		return err
	}
	want := plan.Files(j.Version)
	slices.Sort(want)
	var have []string
	var b strings.Builder
	entries, err := os.ReadDir(j.dist)
	if err != nil {
		return err
	}
	for _, e := range entries {
		have = append(have, e.Name())
		text, err := os.ReadFile(filepath.Join(j.dist, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), e.Name())
	}
	if !slices.Equal(have, want) {
		return fmt.Errorf("made\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	return os.WriteFile(filepath.Join(j.dist, "SHA256SUMS"), []byte(b.String()), 0o644)
}

// compare fails if two folders differ.
func compare(a, b string) error {
	entries, err := os.ReadDir(a)
	if err != nil {
		return err
	}
	var differ []string
	for _, e := range entries {
		x, err := os.ReadFile(filepath.Join(a, e.Name()))
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(b, e.Name()))
		if err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			differ = append(differ, e.Name())
		}
	}
	if differ != nil {
		return fmt.Errorf("two builds of the same commit differ: %s", strings.Join(differ, ", "))
	}
	fmt.Fprintf(os.Stderr, "release: two builds of %d files are the same\n", len(entries))
	return nil
}

// list prints the sizes.
func list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		st, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Printf("%10d  %s/%s\n", st.Size(), dir, e.Name())
	}
	return nil
}

func (j *job) run(dir, name string, args ...string) error {
	_, err := j.output(dir, name, args...)
	return err
}

func (j *job) output(dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(j.ctx, name, args...)
	c.Dir, c.Env = dir, j.env
	var diag bytes.Buffer
	c.Stderr = &diag
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &diag)
	}
	return string(out), nil
}
