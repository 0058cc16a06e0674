package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pureverbs/pureverbs/tools/release/plan"
)

// image writes an OCI archive with an image for each architecture, which has nothing but the static programs.
func (j *job) image() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range plan.Architectures {
		one, err := j.imageFor(arch)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: one, Descriptor: v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	dir := filepath.Join(j.work, "image")
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	named := layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "rdmaperf:" + j.Version})
	if err := path.AppendIndex(index, named); err != nil {
		return err
	}
	var list []file
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, p)
		list = append(list, file{name, text, 0o644})
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, list, j.time); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dist, plan.ImageName(j.Version)), b.Bytes(), 0o644)
}

func (j *job) imageFor(arch string) (v1.Image, error) {
	var list []file
	for _, b := range plan.Static() {
		i := slices.IndexFunc(j.binaries, func(x binary) bool { return x.Build == b && x.arch == arch })
		text, err := os.ReadFile(j.binaries[i].path)
		if err != nil {
			return nil, err
		}
		list = append(list, file{"usr/local/bin/" + b.Program, text, 0o755})
	}
	for _, d := range j.documents {
		list = append(list, file{"usr/local/share/doc/pureverbs/" + d.name, d.text, d.mode})
	}
	var b bytes.Buffer
	if err := writeTar(&b, list, j.time); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer), tarball.WithCompressionLevel(9))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	one, err := mutate.AppendLayers(base, layer)
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(one, &v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: j.time}, Author: holder,
		RootFS:  v1.RootFS{Type: "layers", DiffIDs: diffs(one)},
		History: []v1.History{{Created: v1.Time{Time: j.time}, CreatedBy: "make release VERSION=" + j.Version}},
		Config: v1.Config{
			Env:        []string{"PATH=/usr/local/bin"},
			Entrypoint: []string{"rdmaperf"},
			Labels: map[string]string{
				"org.opencontainers.image.source":   "https://" + plan.Module,
				"org.opencontainers.image.version":  j.Version,
				"org.opencontainers.image.revision": j.Commit,
				"org.opencontainers.image.created":  j.time.Format(time.RFC3339),
				"org.opencontainers.image.licenses": "Apache-2.0",
			},
		},
	})
}

func diffs(i v1.Image) []v1.Hash {
	c, err := i.ConfigFile()
	if err != nil {
		return nil // the image fails to be written
	}
	return c.RootFS.DiffIDs
}
