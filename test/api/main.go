// Command api lists what the public packages export, a line for each name, and compares it with testdata/api, which has
// a file for each package. It prints the difference from the newest release, or from the last commit if the clone has
// no release, and exits with status 1 if testdata/api is not up to date. With -w it writes testdata/api.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	module = "github.com/pureverbs/pureverbs"
	folder = "testdata/api"
)

func main() {
	write := flag.Bool("w", false, "write "+folder)
	flag.Parse()
	err := run(os.Stdout, *write)
	if err != nil {
		fmt.Fprintln(os.Stderr, "api:", err)
		os.Exit(1)
	}
}

func run(w io.Writer, write bool) error {
	root, err := command("go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return err
	}
	if err := os.Chdir(strings.TrimSpace(root)); err != nil {
		return err
	}
	lists, err := exported()
	if err != nil {
		return err
	}
	if write {
		return store(lists)
	}
	base, what := "HEAD", "the last commit (no release in this clone)"
	if tag, err := command("git", "describe", "--tags", "--match", "v*", "--abbrev=0"); err == nil {
		base = strings.TrimSpace(tag)
		what = base
	}
	old, err := committed(base)
	if err != nil {
		fmt.Fprintf(w, "api: nothing to compare with: %v\n", err)
	} else {
		print(w, what, difference(old, lists))
	}
	have, err := stored()
	if err != nil {
		return err
	}
	if d := difference(have, lists); len(d) > 0 {
		print(w, folder, d)
		return fmt.Errorf("%s is not up to date: run go run ./test/api -w, and commit it", folder)
	}
	return nil
}

// print prints a difference. What is gone, or has another type or value, may break programs.
func print(w io.Writer, base string, lines []string) {
	if len(lines) == 0 {
		fmt.Fprintf(w, "api: no difference from %s\n", base)
		return
	}
	gone := 0
	for _, l := range lines {
		if l[0] == '-' {
			gone++
		}
	}
	fmt.Fprintf(w, "api: difference from %s: %d lines added, %d removed (they may break programs)\n",
		base, len(lines)-gone, gone)
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}

// fileOf returns the file of a package's list.
func fileOf(pkg string) string { return strings.ReplaceAll(pkg, "/", "-") + ".txt" }

// store writes the lists, and removes those of packages that are gone.
func store(lists map[string][]string) error {
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil {
		return err
	}
	for p, lines := range lists {
		text := strings.Join(lines, "\n") + "\n"
		if err := os.WriteFile(filepath.Join(folder, fileOf(p)), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// stored reads the lists in the work tree. Their names are those of the files.
func stored() (map[string][]string, error) {
	lists := map[string][]string{}
	files, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			return nil, err
		}
		lists[pkgOf(f.Name())] = split(string(text))
	}
	return lists, nil
}

// committed reads the lists of a commit.
func committed(rev string) (map[string][]string, error) {
	files, err := command("git", "ls-tree", "--name-only", rev, folder+"/")
	if err != nil {
		return nil, err
	}
	if files == "" {
		return nil, fmt.Errorf("%s has no %s", rev, folder)
	}
	lists := map[string][]string{}
	for f := range strings.Lines(files) {
		f = strings.TrimSpace(f)
		text, err := command("git", "show", rev+":"+f)
		if err != nil {
			return nil, err
		}
		lists[pkgOf(filepath.Base(f))] = split(text)
	}
	return lists, nil
}

func pkgOf(file string) string { return strings.ReplaceAll(strings.TrimSuffix(file, ".txt"), "-", "/") }

func split(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// command returns what a command prints.
func command(args ...string) (string, error) {
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
