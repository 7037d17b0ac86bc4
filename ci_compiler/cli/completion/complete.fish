# Completion of @name@ in fish: @name@ --print-completion fish | source
function @function@
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    for line in ($before[1] --complete $before[2..] "$current" 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path "$current"
            case :folders
                __fish_complete_directories "$current"
            case '*'
                echo $line
        end
    end
end
complete --command @name@ --no-files --arguments '(@function@)'
