package loader

import (
	"fmt"
	"strings"

	"github.com/pureverbs/pureverbs/internal/provider"
)

// nodes maps the symbol versions of libibverbs to the rdma-core release that introduced them. Those
// not listed are from v15 or older.
var nodes = map[string]string{
	"IBVERBS_1.5": "v20", "IBVERBS_1.6": "v24", "IBVERBS_1.7": "v25", "IBVERBS_1.8": "v28", "IBVERBS_1.9": "v30",
	"IBVERBS_1.10": "v31", "IBVERBS_1.11": "v32", "IBVERBS_1.12": "v34", "IBVERBS_1.13": "v35", "IBVERBS_1.14": "v36",
	"IBVERBS_1.15": "v59", "IBVERBS_1.16": "v62", "IBVERBS_1.17": "v64",
}

// versionHint returns the remedy if reason, a text of glibc's linker, reports a missing symbol
// version, otherwise "". The texts are "FILE: version `V' not found (required by USER)" and
// "undefined symbol: S, version V". path is the file to open.
func versionHint(path, reason string) string {
	var file, version, user string
	if before, rest, ok := strings.Cut(reason, "version `"); ok {
		version, rest, ok = strings.Cut(rest, "' not found (required by ")
		if !ok {
			return ""
		}
		file = strings.TrimSuffix(strings.TrimSpace(before), ":")
		user = strings.TrimSuffix(rest, ")")
	} else if _, rest, ok := strings.Cut(reason, "undefined symbol: "); ok {
		var symbol string
		symbol, version, _ = strings.Cut(rest, ", version ")
		if release := since(IBVerbs, symbol); release != "" {
			return fmt.Sprintf("the loaded libibverbs lacks %s, which rdma-core %s introduced: "+
				"install one as new as %s",
				symbol, release, path)
		}
		file, user = "the library that should have "+symbol, path
	} else {
		return ""
	}
	if file == "" {
		file = path
	}
	switch release, known := nodes[version]; {
	case strings.HasPrefix(version, "GLIBC_"):
		return fmt.Sprintf("%s was built for a newer C library (%s) than this host's: use the one of this host's "+
			"distribution",
			user, version)
	case strings.HasPrefix(version, provider.PrivateNode):
		return fmt.Sprintf("%s is from %s, and %s is not: use both from the same package", user,
			provider.Release(strings.TrimPrefix(version, provider.PrivateNode)), file)
	case known:
		return fmt.Sprintf("%s is too old for %s: rdma-core %s introduced %s; install that or a later release",
			file, user, release, version)
	case version != "":
		return fmt.Sprintf("%s is too old for %s, which needs its %s: use both from the same release",
			file, user, version)
	}
	return ""
}
