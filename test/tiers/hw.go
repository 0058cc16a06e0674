package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/internal/testutil/adapters"
)

// devicesEnv chooses the devices of tier hw; package testutil reads it.
const devicesEnv = "PUREVERBS_HW_DEVICES"

// hw runs the emulated adapters' tests on real ones, with both data paths. It takes no link down and changes no
// address. Frames and steering rules take PUREVERBS_HW_FRAMES=1.
func (r *runner) hw(ctx context.Context) ([]Result, error) {
	list, _, err := adapters.Choose(sysfs.DefaultRoot(), os.Getenv(devicesEnv))
	if err != nil {
		return nil, fmt.Errorf("tier hw: %w, or with %s=NAME, or NAME,NAME for one at each end", err, devicesEnv)
	}
	devices := strings.Join(list, ",")
	if err := r.command(ctx, "go", "build", "-trimpath", "-o", ".build/bin/", "./cmd/...",
		"./examples/...").Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	run := "-run=^TestRXE"
	if r.run != "" {
		run = "-run=" + r.run
	}
	dirs, err := packagesWith(r.root, "TestRXE", r.pkg)
	if err != nil {
		return nil, err
	}
	var pkgs []string
	for _, d := range dirs {
		if d != "test/rxebench" && d != "test/bed" {
			pkgs = append(pkgs, "./"+d)
		}
	}
	var results []Result
	for _, path := range []string{"ops", "direct"} {
		env := []string{"PUREVERBS_TEST_TIER=hw", devicesEnv + "=" + devices, "PUREVERBS_DATAPATH=" + path,
			"PATH=" + filepath.Join(r.root, ".build/bin") + ":" + os.Getenv("PATH")}
		res, err := r.gotest(ctx, "hw", nil, env, append([]string{run, skipFigures, "-p=1"}, pkgs...)...)
		for i := range res {
			res[i].Package = path + " " + res[i].Package
		}
		if results = append(results, res...); err != nil {
			return results, err
		}
	}
	return results, nil
}
