// Package examples holds programs that show how to use packages ibv, rdmacm and rdma, each in a folder of
// its own. README.md lists them by task. The tests here run them on two devices, against each other and
// against the stock tools; test/examples runs the commands of their READMEs.
package examples
