#!/bin/sh
# Runs a Python test under the interpreter that OCTET_PYTHON names; without one the test counts as skipped.
# SPDX-License-Identifier: MIT
if [ -z "${OCTET_PYTHON:-}" ]; then
  echo "skipped: OCTET_PYTHON names no Python with numpy, onnx and onnxruntime (./dev test makes one)"
  exit 77
fi
exec "$OCTET_PYTHON" "$@"
