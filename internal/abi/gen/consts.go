package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// used finds the names of C constants in the module's sources.
var used = regexp.MustCompile(`\b(?:IBV|MLX5DV|MLX5|RDMA|RAI)_\w+`)

// values returns the constants that testdata/abi knows, of the newest release.
func (g *generator) values() (map[string]int64, error) {
	values := map[string]int64{}
	for _, file := range []string{"consts", "rdmacm-consts", "ofed-consts", "uapi-consts"} {
		var known map[string]map[string]int64
		if err := readJSON(filepath.Join(g.data, file+".json"), &known); err != nil {
			return nil, err
		}
		for name, in := range known {
			values[name] = in[slices.Max(slices.Collect(maps.Keys(in)))]
		}
	}
	return values, nil
}

// constants returns the constants that the module's files name.
func (g *generator) constants(root string, values map[string]int64) (string, error) {
	wanted := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return fs.SkipDir
		case d.IsDir(), filepath.Ext(path) != ".go", strings.Contains(path, "_gen"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		inABI := filepath.Base(filepath.Dir(path)) == "abi"
		for _, at := range used.FindAllIndex(src, -1) {
			name := string(src[at[0]:at[1]])
			if _, ok := values[name]; ok && (inABI || bytes.HasSuffix(src[:at[0]], []byte("abi."))) {
				wanted[name] = true
			}
		}
		return nil
	})
	var b strings.Builder
	b.WriteString("// Constants of the headers of rdma-core v65, with the kernel's (MLX5), and of MLNX_OFED 4.9 " +
		"(EXP).\nconst (\n")
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if v := values[name]; v < 256 {
			fmt.Fprintf(&b, "%s = %d\n", name, v)
		} else {
			fmt.Fprintf(&b, "%s = %#x\n", name, v)
		}
	}
	return b.String() + ")\n", err
}
