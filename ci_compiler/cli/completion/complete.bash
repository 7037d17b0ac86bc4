# Completion of @name@ in bash: eval "$(@name@ --print-completion bash)"
@function@() {
  local line file
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files | :folders)
        compopt -o filenames 2>/dev/null # bash 3.2 of macOS has no compopt
        while IFS= read -r file; do
          COMPREPLY+=("$file")
        done < <(if [[ $line == :files ]]; then compgen -f -- "$2"; else compgen -d -- "$2"; fi)
        ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F @function@ @name@
