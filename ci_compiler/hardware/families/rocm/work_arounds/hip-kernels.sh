for input in "''${pkgsHostTarget[@]}"; do
  if [ -x "$input/bin/hipcc" ]; then
    export ROCM_HOME="$input" ROCM_PATH="$input"
  fi
done
